"""Which of the chunks that were found in a file are of its capture, and the order in which they
were written.

From version 7 on each says of which capture it is. Before, another capture begins at the header of
a file and at another plan: what stands beyond is not read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from lbtrace.capture.layout import LAST_ANONYMOUS, LAST_UNNUMBERED


class FoundChunks:
    """The whole chunks of a file, as they stand there: where each starts, its number and the
    identity of its capture (0 where the version has none), and how many damaged pieces precede it;
    one more count of ``pieces`` is of those after the last. ``plans`` and
    ``ends`` are the numbers of those that hold a plan or are an end, ``headers`` are the places of
    headers of files."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.numbers, self.identities = array("I"), array("I")
        self.pieces = array("I")
        self.plans, self.ends = array("I"), array("I")
        self.headers = array("Q")

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
        version: int,
        checksum: Callable[[int], int],
    ) -> None:
        self.doubles = self.rivals = 0
        self._found, self._plan, self._checksum = found, plan, checksum
        self._identified = version > LAST_ANONYMOUS
        if self._identified:
            own = array("I", (n for n, each in enumerate(found.identities) if each == identity))
        else:
            own = array("I", self._between_captures())
        plans = {*found.plans}
        self.foreign = len(found) - len(own)
        for number in plans.intersection(own):
            self._count_plan(found.starts[number])
        if plans:
            own = array("I", (n for n in own if n not in plans))
        self.chunks: Sequence[int] = own if version <= LAST_UNNUMBERED else self._ordered(own)

    def _between_captures(self) -> range:
        """The chunks that stand between the header of the file before the plan, and where another
        capture begins."""
        found, plan = self._found, self._plan
        after = bisect_right(found.headers, plan)
        first = bisect_right(found.starts, found.headers[after - 1]) if after else 0
        end = len(found)
        if after < len(found.headers):
            end = bisect_right(found.starts, found.headers[after])
        present = self._checksum(plan)
        others = (
            n for n in found.plans if first <= n and self._checksum(found.starts[n]) != present
        )
        other = next(others, end)  # `plan` is the first, unless it is damaged
        at = bisect_left(found.starts, plan)
        ended = [n < at for n in found.ends if first <= n < end]
        if other < end or len({*ended}) > 1:  # what stands before the plan may be of another
            first = at
        return range(first, min(end, other))

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
        kept, end = array("I"), len(found)
        for key, group in groupby(sorted(own, key=number), number):
            first, *others = group
            checksum = self._checksum(found.starts[first])
            if key and all(self._checksum(found.starts[n]) == checksum for n in others):
                kept.append(first)
                self.doubles += len(others)
            else:
                self.rivals += 1 + len(others)
                end = min([end, *others[:1]])
        if self._identified:
            return kept
        # From the first chunk on that has the number of one before it, all may be another's.
        whole = array("I", (n for n in kept if n < end))
        self.foreign += len(kept) - len(whole)
        return whole
