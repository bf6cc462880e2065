"""How often functions were called, and what values were there: action ``count``.

The kernel adds up both halves of values, so that sums of up to 2**32 are exact, and keeps the least
and the most (bpf_src/actions/count.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from lbtrace.model import Aggregate, Grouping, Plan
from lbtrace.tables.keys import OfKey, by_key, in_order
from lbtrace.tables.table import WORD, Table, key_text, to_signed, written
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

    @property
    def key(self) -> str:
        """The values of ``by`` as text: that of a row of `lbtrace.report`."""
        return key_text(self.by)

    def __str__(self) -> str:
        calls = counted(self.count, "call")
        if self.by:
            return clean(", ".join(f"{k}={written(v)}" for k, v in self.by.items())) + f": {calls}"
        return f"{clean(self.name)}: {calls} in process {self.pid}"


def count_calls(plan: Plan, aggregated: Sequence[Aggregate]) -> Sequence[Count]:
    """Return a row for each function and process that called it, or each key, most often called
    first."""

    columns = [(f"{c.how}({c.name})", c.how, c.measure) for c in plan.columns]
    measures = 1 + max((column.measure for column in plan.columns), default=-1)
    unsigned = [_unsigned(probe.grouping, measures) for probe in plan.probes]

    def row(each: OfKey) -> Count:
        name, binary = (each.name, each.binary) if each.function >= 0 else ("", "")
        count = each.count
        if not columns:
            return Count(name, binary, each.pid, count, each.by)
        measured = _measured(each.rows, unsigned)
        values = {shown: _value(measured[measure], how) for shown, how, measure in columns}
        unread = max([count - measure[0] for measure in measured])
        return Count(name, binary, each.pid, count, each.by, values, unread)

    keys = by_key(plan, aggregated)
    return in_order(keys, keys.counts, row, ranked=not columns)


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


_Measured: TypeAlias = tuple[int, int, int, int]
"""What several probes have measured of a value: of how many hits it was read, the sum, the least
and the most."""

_PLACES = {"sum": 1, "min": 2, "max": 3}


def _joined(one: _Measured, other: _Measured) -> _Measured:
    """What both have measured."""
    if not (one[0] and other[0]):
        return one if one[0] else other
    return one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])


def _value(measured: _Measured, how: str) -> int | float | None:
    """What is shown of it; None where it was not read."""
    if not measured[0]:
        return None
    return measured[1] / measured[0] if how == "avg" else measured[_PLACES[how]]


def _unsigned(grouping: Grouping | None, measures: int) -> tuple[bool, ...]:
    """Which of so many measured values have no sign."""
    known = grouping.unsigned if grouping else ()
    return (*known, *(False,) * measures)[:measures]


def _measured(rows: Sequence[Aggregate], unsigned: Sequence[Sequence[bool]]) -> list[_Measured]:
    """What was measured of each value. Probes of different functions take values of different
    types: ``unsigned`` has which have no sign, by probe."""
    found = list[_Measured]()
    for row in rows:
        made = [_of_probe(row.words, n, plain) for n, plain in enumerate(unsigned[row.probe])]
        found = [*map(_joined, found, made)] if found else made
    return found


def _of_probe(words: Sequence[int], number: int, unsigned: bool) -> _Measured:
    """What a probe has measured of a value; nothing in a damaged capture."""
    words = words[MEASURE * number : MEASURE * (number + 1)]
    if len(words) < MEASURE or not words[0]:
        return 0, 0, 0, 0
    read, low, high, complement, most = words
    least = complement ^ WORD
    if not unsigned:  # kept with the sign turned
        least, most = least - (1 << 63), most - (1 << 63)
    return read, (to_signed(high) << 32) + low, least, most


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
