"""What a matcher reports."""

from __future__ import annotations

from typing import Protocol

from lbtrace.model import Call, Event, Fork, InheritedCall, Loss, Thread


class Visitor(Protocol):
    """What a `CallMatcher` drives: a sink, or anything that wants calls."""

    def thread(self, thread: Thread) -> None:
        """A thread got its name."""

    def entry(self, call: Call) -> None:
        """A call began."""

    def exit(self, call: Call) -> None:
        """The same call ended, as its ``end`` says; innermost calls first."""

    def left(self, event: Event) -> None:
        """Calls just reported as ended were unwound at or before this event; the event itself is
        not reported otherwise."""

    def point(self, point: Call) -> None:
        """The program came by a place inside of a function."""

    def loss(self, loss: Loss) -> None:
        """Events of a thread are missing here."""

    def fork(self, fork: Fork) -> None:
        """A process that was forked inside of calls continues there, before its first own call."""

    def inherited(self, call: InheritedCall) -> None:
        """One of these calls ended in that process, as its ``end`` says."""
