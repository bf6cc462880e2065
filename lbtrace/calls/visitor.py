"""What a matcher reports."""

from __future__ import annotations

from typing import Protocol

from lbtrace.model import Call, Event, Fork, InheritedCall, Loss, Thread


class Visitor(Protocol):
    """What a `CallMatcher` drives: a sink, or anything that wants calls. Those that derive from it
    need only the methods for what they want."""

    def thread(self, thread: Thread) -> None:
        """A thread got its name."""
        return

    def entry(self, call: Call) -> None:
        """A call began."""
        return

    def exit(self, call: Call) -> None:
        """The same call ended, as its ``end`` says; innermost calls first."""
        return

    def left(self, event: Event) -> None:
        """Calls just reported as ended were unwound at or before this event; the event itself is
        not reported otherwise."""
        return

    def point(self, point: Call) -> None:
        """The program came by a place inside of a function."""
        return

    def loss(self, loss: Loss) -> None:
        """Events of a thread are missing here."""
        return

    def fork(self, fork: Fork) -> None:
        """A process that was forked inside of calls continues there, before its first own call."""
        return

    def inherited(self, call: InheritedCall) -> None:
        """One of these calls ended in that process, as its ``end`` says."""
        return
