"""The slots of an event, and what the kernel program fetches into each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lbtrace.model import Fetch

TEXTS = 8
"""Strings and pieces of memory that one event carries: LBT_SMALL_8 there."""

NO_SLOT = "no slot left"


class Spare(NamedTuple):
    """Slots, how many of them may be texts, and by how many values they are to be shared."""

    slots: int
    texts: int
    shares: int = 1


class Slots:
    """Fetches of one probe, at most ``limit``. Values that may be left out take no more than
    ``spare``; ``refused`` counts those that did not get all they asked for.
    """

    def __init__(self, limit: int, spare: Spare | None = None) -> None:
        self.refused = 0
        self._spare = spare or Spare(limit, TEXTS)
        self._texts = 0
        self._optional = False
        self._limit = limit
        self._fetches: list[Fetch] = []

    @property
    def fetches(self) -> tuple[Fetch, ...]:
        """All that is to be fetched, by slot."""
        return tuple(self._fetches)

    @property
    def used(self) -> tuple[int, int]:
        """Slots that are taken, and how many of them by texts."""
        return len(self._fetches), self._texts

    @property
    def left(self) -> Spare:
        """What nothing has taken yet, to be shared by all that were refused."""
        return Spare(self._limit - len(self._fetches), TEXTS - self._texts, self.refused)

    def spared(self, each: tuple[int, int], most: int) -> int:
        """How many times ``each`` (slots, texts) can be spared, at most ``most``."""
        slots, texts, shares = self._spare
        left = min(slots, self.left.slots), min(texts, self.left.texts)
        pairs = [(a // shares, b) for a, b in zip(left, each, strict=True)]
        count = min(most, *(a // b for a, b in pairs if b))
        self._spare = Spare(
            left[0] - count * each[0], left[1] - count * each[1], max(1, shares - 1)
        )
        self.refused += count < most
        return count

    def slot(self, fetch: Fetch) -> int:
        """The slot of a fetch; -1 where none is left."""
        if fetch in self._fetches:
            return self._fetches.index(fetch)
        if len(self._fetches) >= self._limit:
            return -1
        if fetch.read in ("string", "bytes"):
            if self._texts == TEXTS:
                return -1
            self._texts += 1
        self._fetches.append(fetch)
        return len(self._fetches) - 1

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """What is fetched inside may not be there at all."""
        before, self._optional = self._optional, True
        try:
            yield
        finally:
            self._optional = before
