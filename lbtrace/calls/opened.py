"""The calls of a stack that are open, and when events of it were lost."""

from __future__ import annotations

from lbtrace.model import Call

NEVER = -1 << 65
"""No frame: lower than any."""


class Lost:
    """When events were lost for the last time: any, entries, returns."""

    __slots__ = ("at", "entry_at", "return_at")

    def __init__(self) -> None:
        self.at = self.entry_at = self.return_at = -1

    def note(self, time: int, entries: int, returns: int) -> None:
        """So many of each were lost before ``time``."""
        self.at = time
        if entries:
            self.entry_at = time
        if returns:
            self.return_at = time


class Stack:
    """The open calls of a stack, ``hooked`` of them by a uretprobe. ``returned``
    is the frame of the return that was the last event, ``lost`` what concerns the
    stack, which may concern others as well."""

    __slots__ = ("calls", "hooked", "lost", "pid", "returned")

    def __init__(self, pid: int, lost: Lost) -> None:
        self.pid = pid
        self.calls: list[Call] = []
        self.hooked = 0
        self.returned = NEVER
        self.lost = lost
