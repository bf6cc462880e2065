"""What a sink is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from lbtrace.model import Call, Loss, Plan, Summary, Thread


class Sink(ABC):
    """Turns calls into one format, on the stream it was handed.

    A sink reads no clock, opens nothing and closes nothing. Errors of its
    stream pass through. What it was given reaches the stream at the latest
    when `flush` or `end` returns.
    """

    name: ClassVar[str]
    binary: ClassVar[bool] = False
    """Whether the stream is one of bytes; otherwise it is one of text."""
    streams: ClassVar[bool] = True
    """Whether the output is worth reading while the trace goes on."""

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        self._stream = stream
        self._plan = plan
        self._color = color

    def thread(self, thread: Thread) -> None:  # noqa: B027 - many formats have no place for it
        """A thread got its name."""

    @abstractmethod
    def entry(self, call: Call) -> None:
        """A call began."""

    @abstractmethod
    def exit(self, call: Call) -> None:
        """The same call ended, as its ``end`` says; innermost calls first."""

    @abstractmethod
    def loss(self, loss: Loss) -> None:
        """Events of a thread are missing here."""

    def flush(self) -> None:  # noqa: B027 - a sink that holds nothing back has nothing to do
        """Show what was held back. Called between batches of a live trace."""

    @abstractmethod
    def end(self, summary: Summary) -> None:
        """The trace is over; all calls have ended."""


def told(loss: Loss) -> str:
    """A loss in words."""
    events = "event" if loss.count == 1 else "events"
    entries = f", {loss.entries} of them calls" if loss.entries else ""
    return f"{loss.count} {events} lost here{entries}"


def lane(call: Call | Loss) -> int:
    """What call trees are drawn per: the goroutine, else the thread."""
    return call.goroutine or call.tid
