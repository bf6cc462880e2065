"""How a value is distributed, such as the durations of calls: action ``histogram``.

The kernel counts values in buckets (bpf_src/actions/histogram.h) and adds up those of each bucket.
Numbers up to 127 have a bucket each; above, a bucket is at most 1/64 of its values wide. A
percentile is the mean of the bucket that holds it: less than `ERROR` from the value of that rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil
from struct import Struct as Layout
from typing import Any

from msgspec import Struct, field

from lbtrace.model import Aggregate, Plan
from lbtrace.model.wire_limits import BUCKET_BITS, NO_BUCKET, SLOT_DURATION
from lbtrace.tables.keys import OfKey, by_key, in_order
from lbtrace.tables.table import PICTURED, WORD, Table, key_text, to_signed
from lbtrace.text import duration

ERROR = 1 / (1 << BUCKET_BITS)
"""The relative error of a value read from its bucket."""

PARTS = {"min": 0, "median": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1}
"""Which part of the values is at most as large."""

BAR = 40
"""Characters of the longest bar."""

GAP = 3
"""Empty bars in a row that are drawn."""

_BUCKET = Layout("<i")

_SHORT = 32 << BUCKET_BITS
"""Values in lower buckets have less than 40 bits: the sum of a million fits a word."""


class Bar(Struct, frozen=True):
    """How many values lie from ``low`` to ``high``, both included."""

    low: int
    high: int
    count: int


class Histogram(Struct, frozen=True):
    """How a value is distributed over ``count`` calls of a function, ``name`` in the file
    ``binary``, by a process. ``unread`` more calls are in nothing but this number, as their value
    could not be read. ``unit`` is ``ns`` of durations, else empty.

    ``total`` is exact. So is ``self_time``: durations less those of the calls of the table inside
    of them; None where that is not known, and of other values. ``min``, ``max``, ``median`` and the
    percentiles are exact up to 127, else less than 1.6 % from the value of that rank; None where no
    value was read. ``bars`` counts the values by powers of two, lowest first. ``by`` is that of
    `lbtrace.tables.Count`.
    """

    name: str
    binary: str
    pid: int
    count: int
    unit: str = ""
    total: int = 0
    min: int | None = None
    median: int | None = None
    p90: int | None = None
    p99: int | None = None
    p999: int | None = None
    max: int | None = None
    unread: int = 0
    bars: tuple[Bar, ...] = ()
    self_time: int | None = None
    by: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The values of ``by`` as text: that of a row of `lbtrace.report`."""
        return key_text(self.by)


def bounds(bucket: int) -> tuple[int, int]:
    """Return the lowest and the highest number of a bucket."""
    if bucket < 0:
        low, high = bounds(~bucket)
        return ~high, ~low
    shift = max(0, (bucket >> BUCKET_BITS) - 1)
    number = bucket - (shift << BUCKET_BITS)
    return number << shift, (number + 1 << shift) - 1


def bucket_of(number: int) -> int:
    """Return the bucket of a number."""
    if number < 0:
        return ~bucket_of(~number)
    shift = max(0, number.bit_length() - 1 - BUCKET_BITS)
    return (shift << BUCKET_BITS) + (number >> shift)


def distribute(plan: Plan, aggregated: Sequence[Aggregate]) -> Sequence[Histogram]:
    """Return a row for each function and process, the largest total first."""
    durations = any(probe.aggregates == SLOT_DURATION for probe in plan.probes)
    times_inner = durations and not plan.by
    part = _part_of_durations if times_inner else _part

    timed = [probe.aggregates == SLOT_DURATION for probe in plan.probes]

    def row(key: OfKey) -> Histogram:
        counts: dict[int, int] = {}
        sums: dict[int, int] = {}
        for row in key.rows:
            bucket, added = part(row)
            counts[bucket] = counts.get(bucket, 0) + row.count
            sums[bucket] = sums.get(bucket, 0) + added
        inner = [row.words[1] for row in key.rows if times_inner and len(row.words) > 1]
        unread = counts.pop(NO_BUCKET, 0)
        whole = sum([sums[bucket] for bucket in counts])
        return Histogram(
            name=key.name,
            binary=key.binary,
            pid=key.pid,
            count=sum(counts.values()),
            unit="ns" if all(timed[row.probe] for row in key.rows) else "",
            total=whole,
            unread=unread,
            self_time=max(0, whole - sum(inner)) if inner else None,
            bars=tuple(_bars(counts)),
            by=key.by,
            **_ranked(counts, sums),
        )

    keys = by_key(plan, aggregated)
    return in_order(keys, [sum([part(row)[1] for row in rows]) for rows in keys.rows], row)


def _part(row: Aggregate) -> tuple[int, int]:
    """The bucket, and the sum of its values: the kernel has 64 bits of it, and the sum of their
    high halves."""
    if len(row.words) < 2:  # before that was kept
        return _part_of_durations(row)
    bucket = _BUCKET.unpack_from(row.key)[0] if len(row.key) >= 4 else 0
    if bucket == NO_BUCKET:
        return bucket, 0
    low, high = row.words[:2]
    return bucket, (to_signed(high) << 32) + (low - (high << 32) & WORD)


def _part_of_durations(row: Aggregate) -> tuple[int, int]:
    """The same by 64 bits of the sum, where no bucket is so wide that the rest is not known."""
    bucket = _BUCKET.unpack_from(row.key)[0] if len(row.key) >= 4 else 0
    if bucket == NO_BUCKET:
        return bucket, 0
    word = row.words[0] if row.words else 0
    if 0 <= bucket < _SHORT and row.count < 1 << 20:
        return bucket, word
    rest = to_signed(word & WORD)
    return bucket, rest + (round((sum(bounds(bucket)) * row.count / 2 - rest) / (1 << 64)) << 64)


def _ranked(counts: dict[int, int], totals: dict[int, int]) -> dict[str, int | None]:
    """The values than which, or as which, at least each of `PARTS` of all is."""
    if len(counts) < 2:
        return {name: _mean(totals[n], counts[n]) for n in counts for name in PARTS}
    found, below, number = dict[str, int | None](), 0, sum(counts.values())
    ranks = [(name, max(1, ceil(part * number))) for name, part in PARTS.items()]
    for bucket in sorted(counts):
        below += counts[bucket]
        if below >= ranks[len(found)][1]:
            mean = _mean(totals[bucket], counts[bucket])
            found |= {name: mean for name, rank in ranks[len(found) :] if rank <= below}
    return found


def _mean(total: int, count: int) -> int:
    return (2 * total + count) // (2 * count)  # no float has 64 bits


def _bars(counts: dict[int, int]) -> Iterator[Bar]:
    """From the lowest power of two to the highest; what is empty between them is there, too."""
    sizes: dict[int, int] = {}
    for bucket, count in counts.items():
        low = bounds(bucket)[0]
        size = low.bit_length() if low >= 0 else -(~low).bit_length() - 1
        sizes[size] = sizes.get(size, 0) + count
    for size in range(min(sizes), max(sizes) + 1) if sizes else ():
        least, most = (1 << abs(size) - 1, (1 << size) - 1) if size > 0 else (0, 0)
        if size < 0:
            below = -size - 1
            least, most = -(1 << below), ~(1 << below - 1) if below else -1
        yield Bar(least, most, sizes.get(size, 0))


def _ranks(row: Histogram) -> tuple[int | None, ...]:
    shares = (row.min, row.median, row.p90, row.p99, row.p999, row.max)
    return row.count, row.total, row.self_time, *shares


def _cells(row: Histogram) -> tuple[str, ...]:
    _, *numbers = _ranks(row)
    texts = {n: "?" if n is None else _number(n, row.unit) for n in {*numbers}}  # many are the same
    total, own, *shares = [texts[n] for n in numbers]
    return str(row.count), total, own if row.unit and not row.by else "", *shares


def _number(number: int, unit: str) -> str:
    return duration(number) if unit else str(number)


def _picture(row: Histogram) -> Iterator[str]:
    """A line for each power of two, if there are several; one for many in a row that are empty."""
    bars = row.bars if len(row.bars) > 1 else ()
    most = max((bar.count for bar in bars), default=0)
    ranges = [f"{_number(b.low, row.unit)} … {_number(b.high, row.unit)}" for b in bars]
    width = max(map(len, ranges), default=0)
    numbers = max((len(str(bar.count)) for bar in bars), default=0)
    for used, run in groupby(zip(bars, ranges, strict=True), key=lambda each: each[0].count > 0):
        shown = [*run]
        if not used and len(shown) > GAP:
            yield f"    {'⋮':>{width}}"
            continue
        for bar, text in shown:
            length = ceil(bar.count * BAR / most)
            yield f"    {text:>{width}}  {bar.count:>{numbers}}  {'█' * length}".rstrip()


def _notes(rows: Sequence[Histogram]) -> Iterator[str]:
    if any(row.unit and not row.by and row.self_time is None for row in rows):
        yield "SELF is not known: of some calls it is not known inside of which they are"
    if len(rows) > PICTURED and any(len(row.bars) > 1 for row in rows):
        yield f"with up to {PICTURED} rows it is also drawn how each is distributed"


TABLE = Table(
    row=Histogram,
    rows=distribute,
    heading=("COUNT", "TOTAL", "SELF", "MIN", "MEDIAN", "P90", "P99", "P99.9", "MAX"),
    cells=_cells,
    ranks=_ranks,
    order="TOTAL",
    spare=("P99.9", "MIN", "P90", "SELF", "MEDIAN", "MAX", "P99", "TOTAL"),
    drawn=lambda row: [f"    not read: {row.unread}"] if row.unread else [],
    picture=lambda row: [*_picture(row)],
    notes=lambda rows: [*_notes(rows)],
    takes_value=True,
)
