"""A table of functions: what all their calls took, when the trace has ended (docs/report.md). For
people, and for programs."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from lbtrace.answers.profile import By, Profile
from lbtrace.answers.row import SORTS, Row, as_tree, in_order
from lbtrace.answers.table import (
    describe_gaps,
    heading,
    of_trace,
    write_csv,
    write_table,
)
from lbtrace.model import Aggregates, Call, Fork, InheritedCall, Plan, Summary, Thread
from lbtrace.sinks.base import Sink
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.tables.view import View, arrange
from lbtrace.text import clean, to_json

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
    needs_callers = False
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
        self._by_interval = False
        self._unended = self._jumped = self._left = 0

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
        most = max(room - 1, 0)
        shown, left = self._seen(self._held, min(self._settings.top or most, most))
        by = replace(self.view, column=self.columns()[1])
        table = write_table(shown[:most], self._settings.by, by)
        return table.splitlines(), left + len(shown[most:])

    def _seen(self, rows: list[Row], top: int | None) -> tuple[list[Row], int]:
        """The first ``top`` rows in the order of the view, with all that are around them where they
        are a tree, and how many are left."""
        found = self._arranged(rows, self.view)
        shown = found[:top]
        if self._settings.by == "path":
            shown = as_tree(self._arranged(rows, replace(self.view, text="")), shown)
        return shown, max(len(found) - len(shown), 0)

    def _arranged(self, rows: list[Row], view: View) -> list[Row]:
        column = view.column
        field = SORTS.get(column.lower(), "key")
        rank = None if column.lower() in ("", self._settings.sort) else attrgetter(field)
        return [*arrange(rows, view, rank, lambda row: f"{row.name}\n{row.key}")]

    def interval(self, aggregates: Aggregates, time: str) -> None:
        """Write what calls took that ended since the last interval, which ends now: at ``time``."""
        self._by_interval = True
        self._write_shown(time)
        self._profile.restart()

    def end(self, summary: Summary) -> None:
        if not self._by_interval:
            self._write_shown("", summary)
        self.close(summary)

    def _write_shown(self, time: str, summary: Summary | None = None) -> None:
        rows = self.rows()
        self._unended += sum(row.unended for row in rows)
        self._jumped += sum(row.jumped for row in rows)
        shown, self._left = self._seen(rows, self._settings.top or self.layout.top)
        self.write(shown, time, summary)

    def write(self, rows: list[Row], time: str, summary: Summary | None) -> None:
        """Write the rows that are shown, below the ``time`` up to which they are."""
        more = f"and {self._left:,} more\n" if self._left else ""
        more += f"only rows with {clean(self.view.text)}\n" if self.view.text else ""
        table = write_table(rows, self._settings.by)
        self._stream.write((f"{time}\n" if time else "") + table + more)

    def close(self, summary: Summary) -> None:
        """Write what the rows lack."""
        gaps = describe_gaps(self._unended, self._jumped, self._profile.unkept, summary)
        self._stream.write("".join(f"{gap}\n" for gap in gaps))


class JsonReport(Report):
    """One object: the rows, and what was lost, by cause. Of intervals one object each, with the
    ``time``, and one of the whole trace."""

    name = "json"
    renews = False

    def write(self, rows: list[Row], time: str, summary: Summary | None) -> None:
        """Write an object."""
        made: dict[str, Any] = {"time": time} if time else {}
        made |= {"by": self._settings.by, "rows": [*map(asdict, rows)]}
        made |= of_trace(summary, self._profile.unkept) if summary else {}
        self._stream.write(to_json(made) + "\n")

    def close(self, summary: Summary) -> None:
        """Write the object of the whole trace, where those of intervals are without."""
        if self._by_interval:
            self._stream.write(to_json(of_trace(summary, self._profile.unkept)) + "\n")


class CsvReport(Report):
    """A line for each row; the names of its fields come first. Those of intervals begin with the
    time."""

    name = "csv"
    renews = False
    _headed = False

    def write(self, rows: list[Row], time: str, summary: Summary | None) -> None:
        """Write the lines."""
        text = write_csv(*of_fields(rows, time))
        self._stream.write(text.partition("\n")[2] if self._headed else text)
        self._headed = True

    def close(self, summary: Summary) -> None:
        """There is nothing to add."""


def of_fields(rows: list[Row], time: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the names of the fields of rows, and their values; the time first, if there is one."""
    fields = Row.__struct_fields__
    values = [*map(attrgetter(*fields), rows)]
    return (("time", *fields), [(time, *row) for row in values]) if time else (fields, values)
