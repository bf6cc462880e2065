"""How long calls did not run: a visitor before another one, to which it hands what it gets.

Of each thread the kernel reports how long it has been blocked and runnable so far, before the
events of hits between which that has changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from lbtrace.calls.visitor import Visitor
from lbtrace.model import Call, Event

NOT_KNOWN = (1 << 64) - 1
"""What the kernel reports of a thread for which it had no room."""

MISSED_SWITCH = 1 << 56
"""What it adds to the time that a thread was blocked where it missed one of its switches."""

MOST = 1 << 15
"""Reports of a thread that are remembered at least: a call may be seen when others have ended."""


class _Reports:
    """What the kernel has reported of a thread: at which times, and how long it was blocked and
    runnable by then."""

    __slots__ = ("blocked", "runnable", "times")

    def __init__(self) -> None:
        self.times, self.blocked, self.runnable = array("Q"), array("Q"), array("Q")

    def add(self, event: Event) -> None:
        if len(self.times) == 2 * MOST:
            del self.times[:MOST], self.blocked[:MOST], self.runnable[:MOST]
        self.times.append(event.time)
        self.blocked.append(event.value0)
        self.runnable.append(event.value1)

    def at(self, time: int) -> int:
        """The number of the report that holds at a time; -1 where it is not known."""
        last = len(self.times) - 1
        found = last if self.times[last] <= time else bisect_right(self.times, time) - 1
        return found if found >= 0 and self.blocked[found] != NOT_KNOWN else -1


class OffCpuTimes:
    """Splits the durations of calls. Those of a goroutine, or on a stack that the program made, may
    go on in another thread, while others run in the first: of these it is not known."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self.thread, self.left, self.point = visitor.thread, visitor.left, visitor.point
        self.loss, self.fork, self.inherited = visitor.loss, visitor.fork, visitor.inherited
        self._threads: dict[int, _Reports] = {}

    def note(self, event: Event) -> None:
        """A thread has not been running so long until now."""
        if (reports := self._threads.get(event.tid)) is None:
            reports = self._threads[event.tid] = _Reports()
        reports.add(event)

    def entry(self, call: Call) -> None:
        """See `Visitor`."""
        self._visitor.entry(call)

    def exit(self, call: Call) -> None:
        """See `Visitor`."""
        known = self._threads.get(call.tid)
        if known and call.duration is not None and not call.goroutine:
            begun, ended = known.at(call.start), known.at(call.start + call.duration)
            blocked = known.blocked[ended] - known.blocked[begun]
            if begun >= 0 <= ended and 0 <= blocked < MISSED_SWITCH:
                call.blocked = blocked
                call.runnable = known.runnable[ended] - known.runnable[begun]
        self._visitor.exit(call)
