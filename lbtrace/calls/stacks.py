"""The stacks of a process beside those of its threads.

A program that switches stacks by itself (``makecontext``), or lets signals
have one of their own (``sigaltstack``), says so when it sets them up: probes
there tell where each lies. Without that, frames on different stacks would
seem to lie above or below each other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, NamedTuple, TypeAlias

StackKind: TypeAlias = Literal["stack", "signal stack"]


class Region(NamedTuple):
    """Memory that serves as a stack."""

    start: int
    end: int
    kind: StackKind


class Regions:
    """The known stacks of all processes."""

    def __init__(self) -> None:
        self._regions: dict[int, list[Region]] = {}
        self._fresh: dict[int, list[Region]] = {}

    def learn(self, pid: int, region: Region) -> None:
        """A process has set up a stack, in the place of any that overlaps."""
        if region.start >= region.end:
            return
        known = self._regions.get(pid, [])
        kept = [r for r in known if r.end <= region.start or r.start >= region.end]
        self._regions[pid] = sorted([*kept, region])
        self._fresh.setdefault(pid, []).append(region)

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program, as its next call tells.

        What it has set up since the last call belongs to the new program.
        """
        fresh = self._fresh.pop(pid, ())
        self._regions.pop(pid, None)
        for region in fresh:
            self.learn(pid, region)

    def find(self, pid: int, address: int) -> Region | None:
        """The stack that holds ``address``, None for that of a thread."""
        self._fresh.pop(pid, None)
        regions = self._regions.get(pid)
        if not regions:
            return None
        # A frame lies below the end of its stack, and may be its end where nothing is on it.
        index = bisect_right(regions, address, key=lambda r: r.start)
        if index and address <= regions[index - 1].end:
            return regions[index - 1]
        return None


class Fibers:
    """The stacks among which programs switch by themselves, known by their pointers:
    a stack goes on where it was left."""

    def __init__(self) -> None:
        self._left: dict[int, dict[int, int]] = {}
        self._running: dict[int, int] = {}

    def switch(self, pid: int, tid: int, pointer: int, to: int) -> int:
        """A thread leaves a stack at ``pointer`` for another; its number if that is a new one,
        else 0."""
        left = self._left.setdefault(pid, {})
        left[pointer] = self._running.get(tid, 0)
        fresh = to not in left
        self._running[tid] = left.pop(to, to)
        return to if fresh else 0

    def lose(self, pid: int, tid: int, frame: int) -> int:
        """A thread may have switched unseen, and runs at ``frame`` now: the number of a stack
        of which nothing is known, 0 where the process does not switch."""
        if pid not in self._left:
            return 0
        self._running[tid] = frame
        return frame

    def running(self, tid: int) -> int:
        """The number of the stack on which a thread runs, 0 for its own."""
        return self._running.get(tid, 0)

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program."""
        self._left.pop(pid, None)
        self._running.pop(pid, None)
