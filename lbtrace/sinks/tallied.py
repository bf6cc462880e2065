"""Tables of calls that were sent, as `lbtrace.sinks.tables` has those that the kernel made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.answers.fast_tally import FastTally
from lbtrace.model import Call, Plan, Summary, Thread
from lbtrace.sinks.base import Sink
from lbtrace.text import counted, some

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch


class Tallied(Sink):
    """Gives a ``sink`` of tables what a `Tally` makes of the calls. ``describe`` says which calls
    are not among them."""

    name = "tallied"
    takes_fast_batches = True

    def __init__(self, sink: Sink, plan: Plan, tally: FastTally) -> None:
        super().__init__(None, plan, sink.layout)
        self._sink = sink
        self._tally = tally

    def grow(self, plan: Plan) -> None:
        self._tally.grow(plan)

    def begin(self) -> None:
        self._sink.begin()

    def thread(self, thread: Thread) -> None:
        self._tally.thread(thread)

    def entry(self, call: Call) -> None:
        """It counts when it has ended."""

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
