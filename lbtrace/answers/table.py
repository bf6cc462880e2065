"""Writes rows of a report: for people, as JSON, or comma-separated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import msgspec

from lbtrace.answers.profile import MOST_ROWS, By
from lbtrace.answers.row import Row
from lbtrace.model import Summary
from lbtrace.tables.view import PLAIN, View, mark
from lbtrace.text import clean, counted, duration

HEADING = ("TOTAL", "SELF", "AVG", "P99", "MAX", "CALLS")

NARROWEST = 8
"""Characters of a column of numbers."""

KEYS: dict[By, str] = {"thread": "THREAD", "caller": "CALLER", "argument": "VALUE"}
"""The heading of the column of keys."""

NO_KEY: dict[By, str] = {"caller": "(not traced)", "argument": "(none)"}
"""What stands there where there is none."""


def heading(by: By) -> tuple[str, ...]:
    """Return the headings of all columns."""
    return (*HEADING, *((KEYS[by],) if by in KEYS else ()), "FUNCTION")


def write_table(rows: Sequence[Row], by: By, view: View = PLAIN) -> str:
    """Return lines for a person; rows by path are indented. The column by which a view has sorted
    them is marked."""
    keyed = by in KEYS
    lines = [mark(heading(by), view)]
    for row in rows:
        times = (row.mean, row.p99, row.max)
        lines.append(
            (
                *(duration(time) if row.timed else "-" for time in (row.total, row.self_time)),
                *("-" if time is None else duration(round(time)) for time in times),
                f"{row.calls:,}",
                *([clean(row.key) or NO_KEY.get(by, "")] if keyed else ()),
                "  " * max(len(row.path) - 1, 0) + clean(row.name),
            )
        )
    return align(lines, len(HEADING))


def align(lines: Sequence[Sequence[str]], numbers: int) -> str:
    """Return lines of cells in columns, the first ``numbers`` of which are flush right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths = [max(width, NARROWEST) if n < numbers else width for n, width in enumerate(widths)]
    made = []
    for line in lines:
        cells = zip(line, widths, strict=True)
        padded = [
            cell.rjust(width) if number < numbers else cell.ljust(width)
            for number, (cell, width) in enumerate(cells)
        ]
        made.append("  ".join(padded).rstrip() + "\n")
    return "".join(made)


def of_trace(summary: Summary, unkept: int) -> dict[str, Any]:
    """Return what a JSON object says of the whole trace."""
    return {
        "calls": summary.calls,
        "unkept": unkept,
        "lost": msgspec.structs.asdict(summary.losses),
        "interrupted": summary.interrupted,
        **({"damaged": True} if summary.damaged else {}),
        **({} if summary.losses_known else {"lost_known": False}),
    }


def write_csv(fields: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return comma-separated values (RFC 4180): a heading, and a line a row."""
    lines = [",".join(fields), *(",".join(map(_quoted, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def write_columns(stream: BinaryIO, fields: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the same as a Parquet file. Raises `DependencyError` where that cannot be done."""
    from lbtrace.calls.table import write_parquet  # imported here: few ask for it

    joined = [[";".join(c) if isinstance(c, tuple) else c for c in row] for row in rows]
    columns = zip(*joined, strict=True) if joined else [()] * len(fields)
    write_parquet(stream, dict(zip(fields, columns, strict=True)))


def _quoted(cell: object) -> str:
    if isinstance(cell, tuple):
        cell = ";".join(cell)
    if isinstance(cell, str):
        return '"' + clean(cell).replace('"', '""') + '"'
    if isinstance(cell, bool):
        return str(cell).lower()
    return "" if cell is None else str(cell)


def describe_gaps(unended: int, jumped: int, unkept: int, summary: Summary) -> list[str]:
    """What the numbers lack, a line each; ``jumped`` are some of the ``unended`` calls."""
    lines, untimed = [], "in CALLS, not in the times"
    if unended > jumped:
        lines.append(f"{counted(unended - jumped, 'call')} without an end: {untimed}")
    if jumped:
        where = "to a function whose return is not seen"
        lines.append(
            f"{counted(jumped, 'call')} jumped {where}: {untimed} (`lbtrace help returns`)"
        )
    if unkept:
        lines.append(f"{counted(unkept, 'call')} in no row: at most {MOST_ROWS:,} rows are kept")
    if summary.losses.events:
        events = counted(summary.losses.events, "event")
        lines.append(f"{events} lost: calls and times are more than shown")
    if summary.interrupted or summary.damaged:
        lines.append("the capture is not whole: calls and times are more than shown")
    return lines
