"""The stacks that programs were seen to set up.

Most stacks beside those of threads have mappings of their own, but a program may set several up in
one (``makecontext``, ``make_fcontext``): probes on the functions that do so report where each lies.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, TypeAlias

HIGHEST = (1 << 64) - 1
"""The highest address."""


class Region(NamedTuple):
    """Memory that serves as a stack."""

    start: int
    end: int


Lane: TypeAlias = tuple[int, int]
"""A lane's key: the process, and the start of its region, or the thread's number minus 1 << 32."""


def own_stack(pid: int, tid: int) -> Lane:
    """Return the lane of a thread's own stack."""
    return pid, tid - (1 << 32)


class Regions:
    """The known stacks of all processes.

    A region in a function's frame lies on the stack of the ``lane`` that sets it up, and ends when
    calls of that lane lie above it.
    """

    def __init__(self) -> None:
        self.nested: dict[Lane, list[Region]] = {}
        self._regions: dict[int, list[Region]] = {}
        self._fresh: dict[int, list[Region]] = {}

    def learn(self, pid: int, region: Region) -> list[Region]:
        """A process has set up a stack, in the place of any that overlaps; returns those."""
        if region.start >= region.end:
            return []
        known = self._regions.get(pid, [])
        kept = [r for r in known if r.end <= region.start or r.start >= region.end]
        self._regions[pid] = sorted([*kept, region])
        self._fresh.setdefault(pid, []).append(region)
        return [r for r in known if r not in kept]

    def nest(self, region: Region, lane: Lane, frame: int) -> None:
        """A lane whose stack pointer is ``frame`` has set up a region."""
        if frame < region.start:
            self.nested.setdefault(lane, []).append(region)

    def left(self, lane: Lane, frame: int) -> list[Region]:
        """Remove and return the regions that have ended because the lane has a call at
        ``frame``."""
        inside = self.nested.get(lane)
        if not inside or all(region.end > frame for region in inside):
            return []
        over = [region for region in inside if region.end <= frame]
        self.nested[lane] = [region for region in inside if region.end > frame]
        known = self._regions.get(lane[0], ())
        return [region for region in over if region in known and self.drop(lane[0], region)]

    def is_nested(self, lane: Lane, region: Region) -> bool:
        """Return whether a region lies on the stack of a lane."""
        return region in self.nested.get(lane, ())

    def has(self, pid: int, start: int) -> bool:
        """Return whether a region of a process begins at ``start``."""
        return any(region.start == start for region in self._regions.get(pid, ()))

    def drop(self, pid: int, region: Region) -> bool:
        """Forget a region whose memory now has another use."""
        self._regions[pid] = [known for known in self._regions[pid] if known != region]
        return True

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program, as its next call shows.

        What it has set up since the last call belongs to the new program.
        """
        fresh = self._fresh.pop(pid, ())
        self._regions.pop(pid, None)
        for lane in [lane for lane in self.nested if lane[0] == pid]:
            del self.nested[lane]
        for region in fresh:
            self.learn(pid, region)

    def fork(self, parent: int, tid: int, child: int) -> None:
        """A thread of ``parent`` forks ``child``, whose memory is a copy."""
        self._fresh.pop(child, None)
        self._regions[child] = self._regions.get(parent, [])
        renamed = {own_stack(parent, tid): own_stack(child, child)}
        for lane, regions in list(self.nested.items()):
            if lane in renamed or (lane[0] == parent and lane[1] >= 0):
                self.nested[renamed.get(lane, (child, lane[1]))] = regions.copy()

    def find(self, pid: int, address: int, *, settle: bool = True) -> Region | None:
        """Return the stack that holds ``address``, None for that of a thread. What was set up
        before then belongs to the program that runs, where a call asks (``settle``)."""
        if settle:
            self._fresh.pop(pid, None)
        regions = self._regions.get(pid)
        if not regions:
            return None
        # A frame lies below the end of its stack, and may be its end where nothing is on it.
        index = bisect_right(regions, address, key=lambda r: r.start)
        if index and address <= regions[index - 1].end:
            return regions[index - 1]
        return None

    def gap(self, pid: int, address: int) -> tuple[int, int] | None:
        """Return the lowest and the highest address around this one that are on no stack set up by
        the program, as `find` has it; None where this one is."""
        self._fresh.pop(pid, None)
        regions = self._regions.get(pid, ())
        index = bisect_right(regions, address, key=lambda r: r.start)
        lowest = regions[index - 1].end + 1 if index else 0
        highest = regions[index].start - 1 if index < len(regions) else HIGHEST
        return (lowest, highest) if lowest <= address else None
