"""Tables of the calls of captures, for programs in Python."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from msgspec.structs import replace

from lbtrace.answers.fast_tally import FastTally
from lbtrace.answers.report import match_all
from lbtrace.answers.tally import Asked
from lbtrace.calls.fast_path import FastMatcher
from lbtrace.calls.iterator import check_sends
from lbtrace.calls.matcher import CallMatcher
from lbtrace.capture import read_capture
from lbtrace.model import Losses
from lbtrace.plan.traced_names import named
from lbtrace.sinks.base import Sink
from lbtrace.sinks.tallied import Tallied
from lbtrace.tables import Table, aggregated
from lbtrace.tables.shown import ShownTable


class CapturedTable(ShownTable):
    """A table that `lbtrace.count` or `lbtrace.latency` makes of a capture, as `LiveTable` has it.
    ``complete``: the trace was recorded to its end."""

    def __init__(self, table: Table, rows: Sequence[Any], losses: Losses, complete: bool) -> None:
        self.complete = complete
        self._shown = table
        self._rows = [*rows]
        self._losses = losses

    @property
    def rows(self) -> list[Any]:
        """The rows."""
        return self._rows

    def losses(self) -> Losses:
        """Return what was lost, by cause."""
        return self._losses

    @property
    def _table(self) -> Table:
        return self._shown


def tabulate(
    path: str | PathLike[str],
    asked: Asked,
    functions: str | Sequence[str] = (),
    thread: str | int | None = None,
    begin: int = 0,
    end: int | None = None,
) -> CapturedTable:
    """Return the table of what is ``asked`` of a capture: of calls of ``functions``, of a
    ``thread``, by its number or name, that ``begin`` so many ns after the first one, and before the
    ``end``. Raises `CaptureError`, `UsageError`."""
    with read_capture(fspath(path)) as capture:
        plan = capture.plan
        check_sends(plan)
        patterns = [functions] if isinstance(functions, str) else [*functions]
        asked = replace(
            asked,
            functions=named(plan, patterns) if patterns else None,
            thread=None if thread is None else str(thread),
            begin=begin,
            end=end,
        )
        tally = FastTally(plan, asked)
        sink: Any = Tallied(Sink(None, plan), plan, tally)
        depth = max(plan.shown_depth, 0) or None
        matcher: CallMatcher
        if plan.off_cpu:
            matcher = CallMatcher(plan, sink, max_depth=depth)
        else:
            matcher = FastMatcher(plan, sink, max_depth=depth)
        match_all(capture, matcher)
        tally.check()
        (_, table, rows), *_ = aggregated(tally.plan, tally.aggregates())
        losses = tally.of_losses(capture.losses)
        return CapturedTable(table, rows, losses, capture.complete)
