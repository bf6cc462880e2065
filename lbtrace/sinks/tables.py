"""Tables of what was aggregated in the kernel, without the calls: for people, and for programs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from lbtrace.model import Aggregates, Call, Loss, Summary
from lbtrace.sinks.base import Sink
from lbtrace.tables import Table, aggregated
from lbtrace.tables.table import lines
from lbtrace.text import to_json


class Rows(Sink):
    """Holds the rows until the trace has ended."""

    streams = False
    _aggregated = Aggregates(0)

    def entry(self, call: Call) -> None:
        """No calls are sent."""

    def exit(self, call: Call) -> None:
        """No calls are sent."""

    def loss(self, loss: Loss) -> None:
        """Losses are counted in all."""

    def aggregates(self, aggregates: Aggregates) -> None:
        """Hold them."""
        self._aggregated = aggregates

    def tables(self) -> list[tuple[str, Table, Sequence[Any]]]:
        """Return each action with its table and the rows that are shown."""
        return [(action, table, rows[: self.layout.top]) for action, table, rows in self.whole()]

    def whole(self) -> Iterator[tuple[str, Table, Sequence[Any]]]:
        """Yield each action with its table and all of its rows."""
        return aggregated(self._plan, self._aggregated)


class TextTable(Rows):
    """Aligned columns, and what is drawn below rows."""

    name = "table"

    def end(self, summary: Summary) -> None:
        """Write the tables."""
        for _, table, rows in self.whole():
            for line in lines(table, rows[: self.layout.top]):
                self._stream.write(f"{line}\n")
            left = len(rows) - len(rows[: self.layout.top])
            if left > 0:
                self._stream.write(f"and {left:,} more\n")


class JsonTable(Rows):
    """One object: the rows of each action by its name, and what was ``lost``, by cause."""

    name = "json"

    def end(self, summary: Summary) -> None:
        """Write the object."""
        rows = {
            action: [msgspec.to_builtins(row) for row in rows] for action, _, rows in self.tables()
        }
        lost = {cause: n for cause, n in msgspec.structs.asdict(summary.losses).items() if n}
        self._stream.write(to_json({**rows, "lost": lost}) + "\n")


class CsvTable(Rows):
    """A line for each row, of the fields that are one number or text; their names come first."""

    name = "csv"

    def end(self, summary: Summary) -> None:
        """Write the lines."""
        writer = csv.writer(self._stream, lineterminator="\n")
        for _, table, rows in self.tables():
            names = [name for name in table.row.__struct_fields__ if name != "bars"]
            writer.writerow(names)
            writer.writerows([getattr(row, name) for name in names] for row in rows)
