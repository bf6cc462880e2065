"""Tables as Parquet files, which pyarrow writes."""

from __future__ import annotations

from typing import Any

from lbtrace.answers.row import Row
from lbtrace.answers.table import write_columns
from lbtrace.calls.table import find_arrow, write_parquet
from lbtrace.model import Aggregates, Summary
from lbtrace.sinks.report import CsvReport, of_fields
from lbtrace.sinks.stacks import StackRows
from lbtrace.sinks.tables import Rows
from lbtrace.tables.table import flat, written

find_arrow("arrow")  # importing this raises DependencyError without it: before anything is traced


class ParquetTable(Rows):
    """The columns of a CSV file, with types. Rows of intervals begin with the time, too; all are
    held until the end, as the types are those of all rows."""

    name = "parquet"
    binary = True

    def begin(self) -> None:
        """There is nothing yet."""
        self._columns = dict[str, list[Any]]()
        self._count = 0

    def write(self, found: Aggregates, time: str, summary: Summary | None = None) -> None:
        """Hold the rows."""
        for _, table, rows, _ in self.tables(found):
            names, values = flat(table, rows)
            given = zip(*values, strict=True) if values else [()] * len(names)
            columns = dict(zip(names, given, strict=True))
            if time:
                columns = {"time": (time,) * len(values), **columns}
            for name, column in columns.items():
                held = self._columns.setdefault(name, [None] * self._count)
                held += [written(v) if isinstance(v, dict | list) else v for v in column]
            self._count += len(values)
            for held in self._columns.values():
                held.extend([None] * (self._count - len(held)))

    def end(self, summary: Summary) -> None:
        """Write the file."""
        super().end(summary)
        write_parquet(self._stream, self._columns)


class ParquetReport(CsvReport):
    """The columns of a CSV file of a report, with types."""

    name = "parquet"
    binary = True

    def begin(self) -> None:
        """There is nothing yet."""
        self._fields: tuple[str, ...] = Row.__struct_fields__
        self._values = list[tuple[Any, ...]]()

    def write(self, rows: list[Row], time: str, summary: Summary | None) -> None:
        """Hold the rows."""
        self._fields, values = of_fields(rows, time)
        self._values += values

    def close(self, summary: Summary) -> None:
        """Write the file."""
        write_columns(self._stream, self._fields, self._values)


class StackParquet(StackRows, ParquetTable):
    """The columns of a CSV file of stacks."""
