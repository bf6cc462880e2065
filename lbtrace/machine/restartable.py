"""Sequences of instructions that the kernel restarts where it interrupts them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 4096
"""Bytes of a sequence that is believed; those of TCMalloc have less than 100."""


class Restartable(NamedTuple):
    """Instructions that the kernel restarts as a whole (`lbtrace.elf.restartable`). They begin at
    ``start``, right after the one that announces them, and end at ``stop``, right after the one by
    which they take effect. Interrupted there, the thread continues at ``handler``."""

    start: int
    stop: int
    handler: int


class Sequences:
    """The restartable sequences of a binary. True if there are any."""

    def __init__(self, sequences: Iterable[Restartable] = ()) -> None:
        known: dict[int, Restartable] = {}
        for each in sequences:
            if 0 <= each.stop - each.start <= LONGEST:
                known[each.start] = max(each, known.get(each.start, each))
        self._sorted = [known[start] for start in sorted(known)]
        self.handlers = frozenset(each.handler for each in self._sorted)

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def starting(self, start: int, stop: int) -> Iterator[Restartable]:
        """Yield those that begin from ``start`` on and before ``stop``, in their order."""
        index = bisect_left(self._sorted, (start, 0, 0))
        while index < len(self._sorted) and self._sorted[index].start < stop:
            yield self._sorted[index]
            index += 1

    def touch(self, address: int, end: int) -> bool:
        """Return whether the instruction from ``address`` to ``end`` belongs to one of them, or
        announces the one that begins after it."""
        return any(each.stop > address for each in self.starting(address - LONGEST, end + 1))
