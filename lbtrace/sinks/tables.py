"""Tables of what was aggregated in the kernel, without the calls: for people, and for programs."""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec.structs import replace

from lbtrace.model import Aggregates, Summary
from lbtrace.sinks.base import Sink
from lbtrace.tables import Table, added_since, aggregated
from lbtrace.tables.table import flat, headings, lines, record, seen, written
from lbtrace.tables.view import PLAIN
from lbtrace.text import clean, to_json


class Rows(Sink):
    """Writes the rows when the trace has ended, or what each `interval` has added to them."""

    view = PLAIN
    _held: Sequence[tuple[str, Table, Sequence[Any]]] = ()
    _looked_at: Aggregates | None = None
    _aggregated = Aggregates(0)
    _shown: Aggregates | None = None

    def aggregates(self, aggregates: Aggregates) -> None:
        """Hold them."""
        self._aggregated = aggregates

    def interval(self, aggregates: Aggregates, time: str) -> None:
        """Write what was added since the last interval, which ends now: at ``time``."""
        self.write(added_since(self._plan, aggregates, self._shown or Aggregates(0)), time)
        self._shown = aggregates

    def end(self, summary: Summary) -> None:
        """Write all, unless intervals have."""
        if self._shown is None:
            self.write(self._aggregated, "", summary)

    def hold(self, aggregates: Aggregates) -> None:
        """Let these be what is looked at."""
        self._looked_at = aggregates
        self._held = [*aggregated(self._plan, aggregates)]

    def columns(self) -> tuple[list[str], str]:
        """Return the headings, and that by which rows are sorted."""
        for _, table, rows in self._held:
            return headings(table, rows), self.view.column or table.order
        return [], ""

    def screen(self, room: int) -> tuple[list[str], int]:
        """Return at most ``room`` lines, and how many rows are not among them. What is drawn below
        rows is left out where it has no room."""
        made, left = list[str](), 0
        for _, table, found in self._held:
            rows = seen(table, found, self.view)
            fit = rows[: min(self.layout.top or room, max(room - len(made) - 1, 0))]
            sizes = [1 + len(table.drawn(row)) + len(table.picture(row)) for row in fit]
            drawn = not table.keyed or sum(sizes) < room - len(made)
            if not table.keyed:
                ends = [*accumulate(sizes)]
                fit = fit[: max(1, sum(end < room - len(made) for end in ends))]
            by = replace(self.view, column=self.view.column or table.order)
            made += lines(table, fit, by, drawn=drawn)
            left += len(rows) - len(fit)
        return made[:room], left

    @abstractmethod
    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the rows of what was ``found``, up to ``time`` or to the end of the trace."""

    def tables(self, found: Aggregates) -> list[tuple[str, Table, Sequence[Any], int]]:
        """Return each action with its table, the rows that are shown, and how many are not."""
        made = list[tuple[str, Table, Sequence[Any], int]]()
        held = found is self._looked_at  # which takes long where there is much
        for action, table, rows in self._held if held else aggregated(self._plan, found):
            chosen = seen(table, rows, self.view)
            shown = chosen[: self.layout.top]
            made.append((action, table, shown, len(chosen) - len(shown)))
        return made


class TextTable(Rows):
    """Aligned columns, and what is drawn below rows."""

    name = "table"
    renews = True

    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the tables, below the time."""
        if time:
            self._stream.write(f"{time}\n")
        self._stream.write("\n".join([*self.lines(found), ""]))  # tens of thousands at once

    def lines(self, found: Aggregates) -> list[str]:
        """Return the lines of the tables."""
        made = list[str]()
        for _, table, rows, left in self.tables(found):
            made += lines(table, rows)
            made += [f"and {left:,} more"] if left else []
            if self.view.text:  # typed while it was renewed
                made.append(f"only rows with {clean(self.view.text)}")
        return made


class JsonTable(Rows):
    """One object: the rows of each action by its name, and what was ``lost``, by cause. Of
    intervals one object each, with the ``time``."""

    name = "json"

    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the object."""
        made: dict[str, Any] = {"time": time} if time else {}
        for action, _, rows, _ in self.tables(found):
            made[action] = [record(row) for row in rows]
        self._stream.write(to_json({**made, **_lost(summary)}) + "\n")

    def end(self, summary: Summary) -> None:
        """Write the object, or what was lost in all intervals."""
        super().end(summary)
        if self._shown is not None:
            self._stream.write(to_json(_lost(summary)) + "\n")


def _lost(summary: Summary | None) -> dict[str, dict[str, int]]:
    if summary is None:
        return {}
    lost = msgspec.structs.asdict(summary.losses)
    return {"lost": {cause: n for cause, n in lost.items() if n}}


class CsvTable(Rows):
    """A line for each row, of the fields that are one number or text; their names come first. Those
    of intervals begin with the time."""

    name = "csv"
    _headed = False

    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Write the lines."""
        writer = csv.writer(self._stream, lineterminator="\n")
        first = [time] if time else []
        for _, table, rows, _ in self.tables(found):
            names, values = flat(table, rows)
            if not self._headed and (rows or not time):
                writer.writerow([*(["time"] if time else []), *names])
                self._headed = bool(time)
            writer.writerows(
                [*first, *[written(v) if isinstance(v, _PARTS) else v for v in row]]
                for row in values
            )


_PARTS = (bool, dict, list)
"""Types of values that are written as text is."""
