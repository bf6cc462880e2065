"""Tables of calls that were sent, as `lbtrace.sinks.tables` has those that the kernel made."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from lbtrace.answers.fast_tally import FastTally
from lbtrace.model import Aggregates, Call, Plan, Summary, Thread
from lbtrace.sinks.base import Sink
from lbtrace.sinks.tables import Rows
from lbtrace.tables.view import View
from lbtrace.text import counted, some

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch


class Tallied(Sink):
    """Gives a ``sink`` of tables what a `Tally` makes of the calls. ``describe`` says which calls
    are not among them."""

    name = "tallied"
    takes_fast_batches = True
    needs_callers = False

    def __init__(self, sink: Sink, plan: Plan, tally: FastTally) -> None:
        super().__init__(None, plan, sink.layout)
        self.renews = sink.renews  # type: ignore[misc]  # as that of tables does
        self._sink = cast(Rows, sink)
        self._tally = tally

    def grow(self, plan: Plan) -> None:
        self._tally.grow(plan)

    def begin(self) -> None:
        self._sink.begin()

    def thread(self, thread: Thread) -> None:
        self._tally.thread(thread)

    def entry(self, call: Call) -> None:
        self._tally.entry(call)  # which counts it when it has ended

    def exit(self, call: Call) -> None:
        self._tally.exit(call)

    def point(self, point: Call) -> None:
        self._tally.point(point)

    def takes(self, fast_batch: FastBatch) -> bool:
        return self._tally.takes(fast_batch)

    def fast_batch(self, fast_batch: FastBatch) -> None:
        self._tally.fast_batch(fast_batch)

    def end(self, summary: Summary) -> None:
        self._tally.check()
        self._sink.grow(self._tally.plan)
        self._sink.aggregates(self._tally.aggregates())
        self._sink.end(self.summary(summary))

    @property
    def view(self) -> View:
        """How the table is looked at (`lbtrace.sinks.live.Live`)."""
        return self._sink.view

    @view.setter
    def view(self, view: View) -> None:
        self._sink.view = view

    def hold(self, aggregates: Aggregates) -> None:
        """Let what was counted until now be what is looked at."""
        self._sink.grow(self._tally.plan)
        self._sink.hold(self._tally.aggregates())

    def interval(self, aggregates: Aggregates, time: str) -> None:
        """Write what was counted since the last interval, which ends now: at ``time``."""
        self._sink.grow(self._tally.plan)
        self._sink.interval(self._tally.aggregates(), time)

    def columns(self) -> tuple[list[str], str]:
        """Return the headings, and that by which rows are sorted."""
        return self._sink.columns()

    def screen(self, room: int) -> tuple[list[str], int]:
        """Return at most ``room`` lines, and how many rows are not among them."""
        return self._sink.screen(room)

    def summary(self, summary: Summary) -> Summary:
        """Return what is said of the calls that were counted, in place of all."""
        losses = self._tally.of_losses(summary.losses)
        return replace(summary, losses=losses, counted=self._tally.counted)

    def describe(self) -> list[str]:
        """Return lines."""
        tally = self._tally
        lines = []
        if tally.lacking:
            names = some(sorted(tally.lacking))
            lines.append(f"  left out: {names}, as what was asked for is not there")
        if tally.uncompared:
            calls = counted(tally.uncompared, "call")
            lines.append(
                f"  left out: {calls} of which a value that --where names was not recorded"
            )
        return lines
