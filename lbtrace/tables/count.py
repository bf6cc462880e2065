"""How often functions were called, and what values were there: action ``count``.

The kernel adds up both halves of values, so that sums of up to 2**32 are exact, and keeps the least
and the most (bpf_src/actions/count.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from lbtrace.model import Aggregate, Plan
from lbtrace.tables.keys import by_key
from lbtrace.tables.table import WORD, Table, to_signed
from lbtrace.text import clean, duration

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
        calls = "1 call" if self.count == 1 else f"{self.count:,} calls"
        if self.by:
            return clean(", ".join(f"{k}={v}" for k, v in self.by.items())) + f": {calls}"
        return f"{clean(self.name)}: {calls} in process {self.pid}"


def count_calls(plan: Plan, aggregated: Sequence[Aggregate]) -> list[Count]:
    """Return a row for each function and process that called it, or each key, most often called
    first."""
    counts = []
    for each in by_key(plan, aggregated):
        count = sum(row.count for row in each.rows)
        words = merge([row.words for row in each.rows]) if plan.columns else ()
        values = {
            f"{c.how}({c.name})": _value(c.how, words[c.measure * MEASURE :]) for c in plan.columns
        }
        unread = max((count - read for read in words[::MEASURE]), default=0)
        counts.append(Count(*each[:3], count, each.by, values, unread))
    return sorted(counts, key=lambda each: (-each.count, each.name, each.pid, repr(each.by)))


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


def _value(how: str, words: Sequence[int]) -> int | float | None:
    if len(words) < MEASURE or not words[0]:
        return None
    read, low, high, least, most = words[:MEASURE]
    total = (to_signed(high) << 32) + low
    if how == "min":
        return to_signed(least ^ WORD >> 1)
    if how == "max":
        return to_signed(most ^ 1 << 63)
    return total / read if how == "avg" else total


def _cells(row: Count) -> tuple[str, ...]:
    return str(row.count), *(_shown(name, value) for name, value in row.values.items())


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
