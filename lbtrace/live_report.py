"""Reports of a trace, for programs that read them while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from lbtrace.answers.profile import By, Profile
from lbtrace.answers.report import Rows, check_key, rows_of
from lbtrace.answers.row import Row
from lbtrace.answers.table import write_table
from lbtrace.calls.fast_path import FastMatcher
from lbtrace.calls.iterator import check_sends
from lbtrace.calls.matcher import CallMatcher
from lbtrace.live_table import LiveTable
from lbtrace.live_trace import Trace
from lbtrace.model import Addition, Aggregates


class LiveReport(LiveTable):
    """A report that is made while the trace runs: see `LiveTable`. Its `rows` are `Rows`."""

    def __init__(self, trace: Trace, by: str) -> None:
        super().__init__(trace)
        check_sends(trace.plan)
        self._by: By
        self._by, argument = check_key(trace.plan, by)
        plan = trace.plan
        self._profile = Profile(plan, self._by, argument)
        matcher = CallMatcher if plan.off_cpu else FastMatcher
        self._matcher = matcher(plan, self._profile, max_depth=trace.max_depth)
        self._feeding = Lock()

    @property
    def rows(self) -> Rows:
        """The rows of now, or the last ones, the longest total first. Raises `UsageError` before it
        runs."""
        self._check_running("report")
        with self._feeding:
            losses, depth = self.losses(), self._matcher.return_depth
            return rows_of(self._profile, losses, depth, complete=not self._thread.is_alive())

    def to_pandas(self) -> Any:
        """See `Rows.to_pandas`."""
        return self.rows.to_pandas()

    def _lines(self, rows: Sequence[Row]) -> list[str]:
        return write_table(rows, self._by).splitlines()

    def _take(self) -> None:
        plan, matcher = self.trace.plan, self._matcher
        for batch in self.trace.shown_batches():
            if isinstance(batch, Aggregates):
                continue
            with self._feeding:
                if isinstance(batch, Addition):
                    plan = plan.grown(batch)
                    matcher.grow(plan)
                    self._profile.grow(plan)
                    continue
                if batch.gap:
                    matcher.finish()  # what was missed may hold the ends of all calls
                matcher.feed(batch)
        with self._feeding:
            matcher.finish()
