"""Tables as Parquet files (https://parquet.apache.org), which pyarrow writes."""

from __future__ import annotations

import io
from typing import Any

from lbtrace.calls.table import array, find_arrow
from lbtrace.model import Aggregates, Summary
from lbtrace.sinks.tables import Rows
from lbtrace.tables.table import flat, written

arrow = find_arrow("arrow")
"""The package. Importing this raises `DependencyError` without it: before anything is traced."""


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
        from pyarrow import parquet  # imported here: takes long, and a trace may fail before

        super().end(summary)
        made = {name: array(arrow, column) for name, column in self._columns.items()}
        held = io.BytesIO()
        parquet.write_table(arrow.table(made), held)
        left = held.getbuffer()
        while left:
            left = left[self._stream.write(left) or 0 :]
