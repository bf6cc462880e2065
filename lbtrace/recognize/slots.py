"""Assigns the slots of an event to fetches of the kernel program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from lbtrace.abi.locations import IndexedFetch
from lbtrace.model import Fetch
from lbtrace.model.wire_limits import CHUNKS

TOO_MANY = "too many values"

TEXTS = ("string", "bytes")
"""How what takes a chunk is read."""


class SlotBudget(NamedTuple):
    """Slots, how many of them may be texts, how many values share them, how many slots each of
    these needs, and what its first part takes (slots, texts), if that is kept for it."""

    slots: int
    texts: int
    shares: int = 1
    needs: tuple[int, ...] = ()
    firsts: tuple[tuple[int, int], ...] = ()


NO_ROOM = SlotBudget(0, 0)


class Slots:
    """Fetches of one probe, at most ``limit``. Values that may be left out take no more than
    ``budget``; ``refused`` counts those that got fewer than they need. The fetches ``kept`` have
    the first slots, whether they are asked for or not. ``is_short`` says that some got no slot.
    """

    def __init__(
        self, limit: int, budget: SlotBudget | None = None, kept: Sequence[Fetch] = ()
    ) -> None:
        self.refused = 0
        self.is_short = False
        self._needs: list[int] = []
        self._firsts: list[tuple[int, int]] = []
        self._budget = budget or SlotBudget(limit, CHUNKS)
        self._texts = sum(fetch.read in TEXTS for fetch in kept)
        self.is_optional = False
        self._limit = limit
        self._fetches = list(kept)

    @property
    def fetches(self) -> tuple[Fetch, ...]:
        """All that is to be fetched, by slot."""
        return tuple(self._fetches)

    @property
    def used(self) -> tuple[int, int]:
        """Slots that are taken, and how many of them by texts."""
        return len(self._fetches), self._texts

    @property
    def remaining(self) -> SlotBudget:
        """The slots that are free, to be shared by all values that were refused."""
        free = self._limit - len(self._fetches), CHUNKS - self._texts
        return SlotBudget(*free, self.refused, tuple(self._needs), _kept(self._firsts, *free))

    @property
    def _free(self) -> tuple[int, int]:
        """Slots and texts that are left of the budget."""
        return min(self._budget.slots, self.remaining.slots), min(
            self._budget.texts, self.remaining.texts
        )

    @property
    def _room(self) -> tuple[int, int]:
        """Slots and texts for the next value: what those after it leave, or its share, but for the
        first parts of these; its own first part in any case."""
        (left, texts), firsts = self._free, self._budget.firsts
        share = max(left // self._budget.shares, left - sum(self._budget.needs[1:]))
        own = firsts[0] if firsts else (0, 0)
        later = [sum(each) for each in zip(*firsts[1:], strict=True)] or (0, 0)
        return max(own[0], min(share, left - later[0])), max(own[1], texts - later[1])

    def allows(self, each: tuple[int, int]) -> bool:
        """Return whether `reserve` finds room for ``each`` (slots, texts) once."""
        return all(a >= b for a, b in zip(self._room, each, strict=True))

    def reserve(
        self, each: tuple[int, int], most: int, first: tuple[int, int] | None = None
    ) -> int:
        """Reserve ``each`` (slots, texts) as often as the budget allows, at most ``most`` times;
        return how often. The ``first`` part of the value takes less, if that is given."""
        slots, texts = self._free
        count = min([most, *(a // b for a, b in zip(self._room, each, strict=True) if b)])
        self._budget = SlotBudget(
            slots - count * each[0],
            texts - count * each[1],
            max(1, self._budget.shares - 1),
            self._budget.needs[1:],
            self._budget.firsts[1:],
        )
        if count < most:
            self.refused += 1
            self._needs.append(most * each[0])
            self._firsts.append(first or each)
        return count

    def slot(self, fetch: Fetch) -> int:
        """Return the slot of a fetch; -1 where none is left. An index takes one of its own."""
        if isinstance(fetch, IndexedFetch):
            index = self.slot(fetch.index)
            return -1 if index < 0 else self.slot(fetch.from_slot(index))
        if fetch in self._fetches:
            return self._fetches.index(fetch)
        is_text = fetch.read in TEXTS
        if len(self._fetches) >= self._limit or (is_text and self._texts == CHUNKS):
            self.is_short = True
            return -1
        self._texts += is_text
        self._fetches.append(fetch)
        return len(self._fetches) - 1

    @contextmanager
    def as_optional(self) -> Iterator[None]:
        """Within, fetches are of values that may not exist: no loss is counted for them."""
        before, self.is_optional = self.is_optional, True
        try:
            yield
        finally:
            self.is_optional = before


def _kept(firsts: Sequence[tuple[int, int]], slots: int, texts: int) -> tuple[tuple[int, int], ...]:
    """What is kept for the first parts of values: of as many as there is room for, so that those
    come first that take least."""
    kept = [(0, 0)] * len(firsts)
    for number, first in sorted(enumerate(firsts), key=lambda each: each[1]):
        if first[0] <= slots and first[1] <= texts:
            kept[number] = first
            slots, texts = slots - first[0], texts - first[1]
    return tuple(kept)
