"""Which of the chunks that were found in a file are of its capture, and the order in which they
were written."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise


class FoundChunks:
    """The whole chunks of a file, as they stand there: where each starts, its number and the
    identity of its capture. ``plans`` are the numbers of those that hold a plan, ``headers`` the
    places of headers of files, and ``pieces`` counts the damaged pieces after the last chunk."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.numbers, self.identities = array("I"), array("I")
        self.plans = array("I")
        self.headers = array("Q")
        self.pieces = 0

    def __len__(self) -> int:
        return len(self.starts)


class ChunkOrder:
    """The chunks after the plan, which starts at ``plan``, in the order in which they were written:
    ``chunks``, the numbers of the ``found`` ones. ``foreign`` counts those of other captures,
    ``doubles`` those that are there once more, ``rivals`` those that have a number in common with
    one of another content: of these none is read. ``checksum`` returns that of the chunk that
    starts at a place."""

    def __init__(
        self,
        found: FoundChunks,
        plan: int,
        identity: int,
        checksum: Callable[[int], int],
    ) -> None:
        self.doubles = self.rivals = 0
        self._found, self._plan, self._checksum = found, plan, checksum
        own = array("I", (n for n, each in enumerate(found.identities) if each == identity))
        plans = {*found.plans}
        self.foreign = len(found) - len(own)
        for number in plans.intersection(own):
            self._count_plan(found.starts[number])
        if plans:
            own = array("I", (n for n in own if n not in plans))
        self.chunks = self._ordered(own)

    def _count_plan(self, start: int) -> None:
        """Count a plan that is not the one that is read."""
        if start == self._plan:
            return
        if self._checksum(start) == self._checksum(self._plan):
            self.doubles += 1
        else:
            self.rivals += 1

    def _ordered(self, own: Sequence[int]) -> Sequence[int]:
        """The chunks by their numbers, each once. The number 0 is that of the plan."""
        found = self._found
        number = found.numbers.__getitem__
        if all(number(n) < number(m) for n, m in pairwise(own)) and (not own or number(own[0])):
            return own
        kept = array("I")
        for key, group in groupby(sorted(own, key=number), number):
            first, *others = group
            checksum = self._checksum(found.starts[first])
            if key and all(self._checksum(found.starts[n]) == checksum for n in others):
                kept.append(first)
                self.doubles += len(others)
            else:
                self.rivals += 1 + len(others)
        return kept
