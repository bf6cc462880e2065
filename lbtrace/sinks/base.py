"""The base class of sinks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from lbtrace.calls.visitor import Visitor
from lbtrace.model import (
    Aggregates,
    Call,
    Event,
    Fork,
    Frame,
    Loss,
    Plan,
    Summary,
    keys_of,
)
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.text import clean

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

__all__ = ["Sink", "describe_loss", "keys_of", "lane", "own_lane"]


class Sink(Visitor):
    """Turns calls into one format, on the stream it was handed.

    A sink reads no clock, opens nothing and closes nothing. Errors of its
    stream pass through. What it was given reaches the stream at the latest
    when `flush` or `end` returns. ``layout`` says how it writes.
    """

    name: ClassVar[str]
    binary: ClassVar[bool] = False
    """Whether the stream is one of bytes; otherwise it is one of text."""
    renews: ClassVar[bool] = False
    """Whether people look at it meanwhile (`lbtrace.sinks.live.Live`)."""
    may_be_cut: ClassVar[bool] = False
    """Whether lines may end where a terminal ends. It writes whole lines then."""
    takes_fast_batches: ClassVar[bool] = False
    """Whether it can write many calls at once: then it has `fast_batch`."""
    needs_callers: ClassVar[bool] = True
    """Whether the callers of calls count, which come with each of them."""

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        self._stream = stream
        self._plan = plan
        self.layout = layout

    def grow(self, plan: Plan) -> None:
        """The plan has grown: it has further probes, after those that it had."""
        self._plan = plan

    def begin(self) -> None:
        """The trace begins, before all else."""

    def point(self, point: Call) -> None:
        """The program came by a place inside of a function; ``depth`` counts the calls that it
        is in."""
        self.entry(point)
        self.exit(point)

    def takes(self, fast_batch: FastBatch) -> bool:
        """Return whether `fast_batch` may be called: see `lbtrace.calls.fast_path.FastVisitor`."""
        return False

    def fast_batch(self, fast_batch: FastBatch) -> None:
        """Calls that began and returned, many at once. A sink that has this is quicker."""
        raise NotImplementedError

    def aggregates(self, aggregates: Aggregates) -> None:
        """What was aggregated in the kernel in all, before the end."""

    def flush(self) -> None:
        """Show what was held back. Called between batches of a live trace."""

    def end(self, summary: Summary) -> None:
        """The trace has ended; all calls have ended."""

    def summary(self, summary: Summary) -> Summary:
        """Return what is said of the trace when this has ended."""
        return summary


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
