"""A table of functions: what all their calls took, when the trace has ended (docs/report.md). For
people, and for programs."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.answers.profile import By, Profile
from lbtrace.answers.row import SORTS, Row, as_tree, in_order
from lbtrace.answers.table import (
    describe_gaps,
    heading,
    write_csv,
    write_json,
    write_table,
)
from lbtrace.model import Aggregates, Call, Fork, InheritedCall, Plan, Summary, Thread
from lbtrace.sinks.base import Sink
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.tables.view import View, arrange

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch


class Settings(Struct, frozen=True):
    """What a report shows. ``callers`` are functions of which only the callers are shown,
    ``callees`` those of which only what they call is. ``argument`` is the one that rows are by."""

    by: By = "function"
    argument: str = ""
    sort: str = "total"
    top: int | None = None
    callers: frozenset[str] = frozenset()
    callees: frozenset[str] = frozenset()

    def chooses(self, row: Row) -> bool:
        """Whether a row is shown."""
        if self.callers or self.callees:
            return row.name in self.callers or row.key in self.callees
        return True


class Report(Sink):
    """See the module."""

    name = "report"
    renews = True
    takes_fast_batches = True
    view = View()

    def __init__(
        self,
        stream: Any,
        plan: Plan,
        layout: Layout = PLAIN,
        *,
        settings: Settings = Settings(),  # noqa: B008 - it is frozen
    ) -> None:
        super().__init__(stream, plan, layout)
        self._settings = settings
        self._profile = Profile(plan, settings.by, settings.argument)

    def grow(self, plan: Plan) -> None:
        super().grow(plan)
        self._profile.grow(plan)

    def thread(self, thread: Thread) -> None:
        self._profile.thread(thread)

    def entry(self, call: Call) -> None:
        self._profile.entry(call)

    def exit(self, call: Call) -> None:
        self._profile.exit(call)

    def point(self, point: Call) -> None:
        self._profile.point(point)

    def fork(self, fork: Fork) -> None:
        self._profile.fork(fork)

    def inherited(self, call: InheritedCall) -> None:
        self._profile.inherited(call)

    def takes(self, fast_batch: FastBatch) -> bool:
        return self._profile.takes(fast_batch)

    def fast_batch(self, fast_batch: FastBatch) -> None:
        self._profile.fast_batch(fast_batch)

    def rows(self) -> list[Row]:
        """Return the rows that are asked for, until now."""
        rows = [*filter(self._settings.chooses, self._profile.rows())]
        return in_order(rows, self._settings.sort)

    def hold(self, aggregates: Aggregates | None = None) -> None:
        """Let what is known now be what is looked at (`lbtrace.sinks.live.Live`)."""
        self._held = self.rows()

    def columns(self) -> tuple[list[str], str]:
        """Return the headings, and that by which rows are sorted."""
        return [*heading(self._settings.by)], self.view.column or self._settings.sort.upper()

    def screen(self, room: int) -> tuple[list[str], int]:
        """Return at most ``room`` lines, and how many rows are not among them."""
        rows = self._seen(self._held)
        shown = rows[: min(self._settings.top or room, max(room - 1, 0))]
        by = replace(self.view, column=self.columns()[1])
        table = write_table(shown, self._settings.by, by)
        return table.splitlines(), len(rows) - len(shown)

    def _seen(self, rows: list[Row]) -> list[Row]:
        column = self.view.column
        field = SORTS.get(column.lower(), "key")
        rank = None if column.lower() in ("", self._settings.sort) else attrgetter(field)
        return [*arrange(rows, self.view, rank, lambda row: f"{row.name}\n{row.key}")]

    def end(self, summary: Summary) -> None:
        self.write(self._shown(), summary)

    def write(self, rows: list[Row], summary: Summary) -> None:
        """Write the rows that are shown, and what they lack."""
        every, by = self.rows(), self._settings.by
        gaps = describe_gaps(every, self._profile.unkept, summary)
        if left := len(self._seen(every)) - len(rows):
            gaps.insert(0, f"and {left:,} more")
        self._stream.write(write_table(rows, by) + "".join(f"{gap}\n" for gap in gaps))

    def _shown(self) -> list[Row]:
        rows, top = self._seen(self.rows()), self._settings.top
        return as_tree(rows, top) if self._settings.by == "path" else rows[:top]


class JsonReport(Report):
    """One object: the rows, and what was lost, by cause."""

    name = "json"
    renews = False

    def write(self, rows: list[Row], summary: Summary) -> None:
        """Write the object."""
        unkept = self._profile.unkept
        self._stream.write(write_json(rows, self._settings.by, summary, unkept))


class CsvReport(Report):
    """A line for each row; the names of its fields come first."""

    name = "csv"
    renews = False

    def write(self, rows: list[Row], summary: Summary) -> None:
        """Write the lines."""
        fields = Row.__struct_fields__
        self._stream.write(write_csv(fields, map(attrgetter(*fields), rows)))
