"""The base class of sinks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lbtrace.model import (
    Aggregates,
    Call,
    Event,
    Fork,
    Frame,
    InheritedCall,
    Loss,
    Plan,
    Summary,
    Thread,
    keys_of,
)
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.text import clean

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

__all__ = ["Sink", "describe_loss", "keys_of", "lane", "own_lane"]


class Sink(ABC):
    """Turns calls into one format, on the stream it was handed.

    A sink reads no clock, opens nothing and closes nothing. Errors of its
    stream pass through. What it was given reaches the stream at the latest
    when `flush` or `end` returns. ``layout`` says how it writes.
    """

    name: ClassVar[str]
    binary: ClassVar[bool] = False
    """Whether the stream is one of bytes; otherwise it is one of text."""
    streams: ClassVar[bool] = True
    """Whether the output is worth reading while the trace runs."""
    renews: ClassVar[bool] = False
    """Whether people look at it meanwhile (`lbtrace.sinks.live.Live`)."""
    may_be_cut: ClassVar[bool] = False
    """Whether lines may end where a terminal ends. It writes whole lines then."""
    takes_fast_batches: ClassVar[bool] = False
    """Whether it can write many calls at once: then it has `fast_batch`."""

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        self._stream = stream
        self._plan = plan
        self.layout = layout

    def grow(self, plan: Plan) -> None:
        """The plan has grown: it has further probes, after those that it had."""
        self._plan = plan

    def begin(self) -> None:  # noqa: B027 - few formats have a beginning
        """The trace begins, before all else."""

    def thread(self, thread: Thread) -> None:  # noqa: B027 - many formats have no place for it
        """A thread got its name."""

    @abstractmethod
    def entry(self, call: Call) -> None:
        """A call began."""

    @abstractmethod
    def exit(self, call: Call) -> None:
        """The same call ended, as its ``end`` says; innermost calls first."""

    def left(self, event: Event) -> None:  # noqa: B027 - a format may have no place for it
        """The calls that ended just now without returning were left when ``event`` shows so."""

    def point(self, point: Call) -> None:
        """The program came by a place inside of a function; ``depth`` counts the calls that it
        is in."""
        self.entry(point)
        self.exit(point)

    @abstractmethod
    def loss(self, loss: Loss) -> None:
        """Events of a thread are missing here."""

    def fork(self, fork: Fork) -> None:  # noqa: B027 - a format may show each call by itself
        """A process that was forked inside of calls continues there, before its first own call."""

    def inherited(self, call: InheritedCall) -> None:  # noqa: B027 - as above
        """One of these calls ended in that process, as its ``end`` says. It is not counted."""

    def takes(self, fast_batch: FastBatch) -> bool:
        """Return whether `fast_batch` may be called: see `lbtrace.calls.fast_path.FastVisitor`."""
        return False

    def fast_batch(self, fast_batch: FastBatch) -> None:
        """Calls that began and returned, many at once. A sink that has this is quicker."""
        raise NotImplementedError

    def aggregates(self, aggregates: Aggregates) -> None:  # noqa: B027 - most show calls only
        """What was aggregated in the kernel in all, before the end."""

    def flush(self) -> None:  # noqa: B027 - a sink that holds nothing back has nothing to do
        """Show what was held back. Called between batches of a live trace."""

    @abstractmethod
    def end(self, summary: Summary) -> None:
        """The trace has ended; all calls have ended."""


def describe_loss(loss: Loss) -> str:
    """Return a loss in words."""
    events = "event" if loss.count == 1 else "events"
    calls = "a call" if loss.entries == 1 else "calls"
    entries = f", {loss.entries} of them {calls}" if loss.entries else ""
    return f"{loss.count} {events} lost here{entries}"


def describe_frame(frame: Frame) -> str:
    """Return a frame of a stack in words: ``main+0x1d (prog)``, ``vfs_read+0x2a [k]``, fit for a
    terminal."""
    file = "" if frame.module or frame.inlined else os.path.basename(frame.binary)
    place = f"{frame.name or file}+{frame.offset:#x}"
    if not (frame.name or file):
        place = f"{frame.offset:#x}"
    elif frame.name and not frame.offset:
        place = frame.name
    where = f" ({file})" if frame.name and file else f" {frame.module}" if frame.module else ""
    return clean(f"{place}{where}{' ?' if frame.guessed else ''}{frame.where}")


def own_lane(call: Call | Event | Loss | Fork) -> int:
    """Return the goroutine, or the stack that the program made; 0 for a thread."""
    return call.lane if isinstance(call, Event) else call.goroutine


def lane(call: Call | Event | Loss | Fork) -> int:
    """Return the lane of a call tree: the goroutine, else the thread."""
    return own_lane(call) or call.tid
