"""When events were lost, and when returns may have been missed."""

from __future__ import annotations

NEVER_AGAIN = 1 << 64
"""Later than every event."""


class LastLosses:
    """The times of the last losses: of any events, of entries, of returns.

    The return of a call that began before ``unsure_before`` needs a closer look: entries and
    returns have been lost since, or the process has been forked."""

    __slots__ = ("at", "entry_at", "return_at", "unsure_before")

    def __init__(self) -> None:
        self.at = self.entry_at = self.return_at = self.unsure_before = -1

    def note(self, time: int, entries: int, returns: int) -> None:
        """Record that this many of each were lost before ``time``."""
        self.at = time
        if entries:
            self.entry_at = time
        if returns:
            self.return_at = time
        self.unsure_before = max(self.unsure_before, min(self.entry_at, self.return_at))

    def inherit(self, parent: LastLosses, forked: int) -> None:
        """Record what had been lost by the ``parent`` of a process when this was ``forked``."""
        self.at = max(self.at, parent.at)
        self.entry_at = max(self.entry_at, parent.entry_at)
        self.return_at = max(self.return_at, parent.return_at)
        self.unsure_before = max(self.unsure_before, forked)

    def copy(self) -> LastLosses:
        """Return the same times, which stay as they are."""
        copied = LastLosses()
        copied.inherit(self, self.unsure_before)
        return copied


class LossTimes:
    """The times of losses of all threads, and the times between which returns may be missed.

    With ``shared``, what a thread lost may have happened on any stack that it may have run on,
    so stacks of the same thread or process share their `LastLosses`.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._lost: dict[int | tuple[int], LastLosses] = {}
        self._missed_until = -1
        self._missed_from = NEVER_AGAIN

    def note_gap(self, since: int, until: int) -> None:
        """Record that returns may not be seen from ``since`` until ``until``; 0 is for good."""
        if until:
            self._missed_until = max(self._missed_until, until)
        else:
            self._missed_from = min(self._missed_from, since)

    def may_hide(self, start: int, end: int) -> bool:
        """Return whether the return of a call between these times may have been missed."""
        return start < self._missed_until or end >= self._missed_from

    def of(self, pid: int, tid: int) -> LastLosses:
        """Return the losses that concern a thread's own stack, or where ``tid`` is 0 another stack
        of the process."""
        return self._lost.setdefault(tid or (pid,), LastLosses()) if self._shared else LastLosses()

    def note(self, pid: int, tid: int, time: int, entries: int, returns: int) -> None:
        """Record what a thread lost before ``time`` for all stacks that it may have run on: its
        own, and those of no thread."""
        if self._shared:
            for stack in (self.of(pid, tid), self.of(pid, 0)):
                stack.note(time, entries, returns)
