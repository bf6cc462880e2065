"""How often functions were called, and what values were there: action ``count``.

The kernel adds up both halves of values, so that sums of up to 2**32 are exact, and keeps the least
and the most (bpf_src/actions/count.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from lbtrace.model import Aggregate, Plan
from lbtrace.tables.keys import OfKey, by_key, in_order
from lbtrace.tables.table import WORD, Table, to_signed, written
from lbtrace.text import clean, counted, duration

MEASURE = 5
"""Words of a measured value: of how many hits it was read, the sums of its low and high halves, and
the least and the most, in a form in which both are the most of what was seen."""


class Count(Struct, frozen=True):
    """How often a process has called a function: ``name``, in the file ``binary``. ``str`` gives
    a line fit for a terminal: ``fib: 33 calls in process 4711``.

    Where values are named by which calls are counted, they are in ``by``, by their names, None of
    what could not be read; ``name``, ``binary`` and ``pid`` are empty then, unless they are among
    them. ``values`` are columns: ``sum(n)`` and others, None where no value was read; of ``unread``
    calls one could not be.
    """

    name: str
    binary: str
    pid: int
    count: int
    by: dict[str, Any] = field(default_factory=dict)
    values: dict[str, int | float | None] = field(default_factory=dict)
    unread: int = 0

    def __str__(self) -> str:
        calls = counted(self.count, "call")
        if self.by:
            return clean(", ".join(f"{k}={written(v)}" for k, v in self.by.items())) + f": {calls}"
        return f"{clean(self.name)}: {calls} in process {self.pid}"


def count_calls(plan: Plan, aggregated: Sequence[Aggregate]) -> Sequence[Count]:
    """Return a row for each function and process that called it, or each key, most often called
    first."""

    def row(each: OfKey) -> Count:
        of, count = (each.name, each.binary, each.pid), each.count
        if not plan.columns:
            return Count(*of, count, each.by)
        measured = _measured(plan, each.rows)
        values = {f"{c.how}({c.name})": measured[c.measure].value(c.how) for c in plan.columns}
        unread = max((count - measure.read for measure in measured), default=0)
        return Count(*of, count, each.by, values, unread)

    return in_order(by_key(plan, aggregated), attrgetter("count"), row)


def merge(words: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return what several have measured, as one."""
    return tuple(
        max(each) if n % MEASURE >= 3 else sum(each) & WORD
        for n, each in enumerate(zip(*words, strict=True))
    )


def subtract(later: Sequence[int], earlier: Sequence[int]) -> tuple[int, ...]:
    """Return what was measured between two moments, but the least and the most of all the time."""
    return tuple(
        new if n % MEASURE >= 3 else new - old & WORD
        for n, (new, old) in enumerate(zip(later, earlier, strict=True))
    )


class _Measured(Struct):
    """What several probes have measured of a value."""

    read: int = 0
    total: int = 0
    least: int | None = None
    most: int | None = None

    def add(self, words: Sequence[int], *, unsigned: bool) -> None:
        """Add what a probe has measured."""
        read, low, high, complement, turned = words
        if not read:
            return
        least, most = complement ^ WORD, turned
        if not unsigned:
            least, most = (to_signed(word ^ 1 << 63) for word in (least, most))
        self.read += read
        self.total += (to_signed(high) << 32) + low
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def value(self, how: str) -> int | float | None:
        """Return what is shown of it."""
        if not self.read:
            return None
        if how == "avg":
            return self.total / self.read
        return {"sum": self.total, "min": self.least, "max": self.most}[how]


def _measured(plan: Plan, rows: Sequence[Aggregate]) -> list[_Measured]:
    """What was measured of each value. Probes of different functions take values of different
    types."""
    made = [_Measured() for _ in range(1 + max(column.measure for column in plan.columns))]
    for row in rows:
        grouping = plan.probes[row.probe].grouping
        unsigned = grouping.unsigned if grouping else ()
        for place, measure in enumerate(made):
            words = row.words[MEASURE * place : MEASURE * (place + 1)]
            if len(words) == MEASURE:
                measure.add(words, unsigned=place < len(unsigned) and unsigned[place])
    return made


def _cells(row: Count) -> tuple[str, ...]:
    return str(row.count), *[_shown(name, value) for name, value in row.values.items()]


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "?"
    if name.endswith("(duration)"):
        return duration(round(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


TABLE = Table(
    row=Count,
    rows=count_calls,
    heading=("COUNT",),
    cells=_cells,
    ranks=lambda row: (row.count, *row.values.values()),
    drawn=lambda row: [f"    not read: {row.unread}"] if row.unread else [],
    merge=merge,
    subtract=subtract,
)
