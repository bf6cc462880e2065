"""What is aggregated of calls that were sent, at one key: in the form that the kernel has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from struct import pack

from msgspec import Struct

from lbtrace.model.wire_limits import NO_BUCKET
from lbtrace.tables.histogram import bounds, bucket_of
from lbtrace.tables.key_values import Tallied
from lbtrace.tables.table import WORD
from lbtrace.values.datum import Datum

Amount = int | None
"""An integer; None where it is not known. The amount of a duration is none: it has its times."""


class Cell:
    """Calls of ``probe`` in the process ``pid`` whose key has the ``values``. ``timed`` says which
    of the measured values are durations. ``inner`` is how long the calls took inside of them, in
    ns. ``alike`` are the calls that were last met here."""

    __slots__ = ("alike", "count", "inner", "pid", "probe", "timed", "values")

    def __init__(
        self, probe: int, pid: int, values: tuple[Datum, ...], timed: Sequence[bool]
    ) -> None:
        self.probe, self.pid, self.values, self.timed = probe, pid, values, timed
        self.count = self.inner = 0
        self.alike: Alike | None = None

    def add(self, count: int, amounts: Sequence[Amount], times: Sequence[int]) -> None:
        """Add so many calls that have the same amounts, and took these times."""
        self.count += count
        for number, (timed, amount) in enumerate(zip(self.timed, amounts, strict=True)):
            if timed:
                self.measure(number, times)
            else:
                self.repeat(number, amount, count)

    def measure(self, number: int, times: Sequence[int]) -> None:
        """Add times to the measured value of that number."""
        raise NotImplementedError

    def repeat(self, number: int, amount: Amount, count: int) -> None:
        """Add an amount ``count`` times to the measured value of that number."""
        raise NotImplementedError

    def rows(self) -> Iterator[Tallied]:
        """Yield what the kernel would have aggregated."""
        raise NotImplementedError


class Alike(Struct, eq=False):
    """Calls that count for the same: in a cell, with these amounts."""

    cell: Cell
    amounts: tuple[Amount, ...]


class CountCell(Cell):
    """Counts calls, and measures their values: see `lbtrace.tables.count`."""

    __slots__ = ("_measured",)

    def __init__(
        self, probe: int, pid: int, values: tuple[Datum, ...], timed: Sequence[bool]
    ) -> None:
        super().__init__(probe, pid, values, timed)
        self._measured = [[0, 0, 0, 0] for _ in timed]

    def measure(self, number: int, times: Sequence[int]) -> None:
        """See `Cell`."""
        self._add(number, len(times), sum(times), min(times), max(times))

    def repeat(self, number: int, amount: Amount, count: int) -> None:
        """See `Cell`."""
        if amount is not None:
            self._add(number, count, amount * count, amount, amount)

    def _add(self, number: int, count: int, total: int, least: int, most: int) -> None:
        known = self._measured[number]
        if known[0]:
            least, most = min(least, known[2]), max(most, known[3])
        known[:] = known[0] + count, known[1] + total, least, most

    def rows(self) -> Iterator[Tallied]:
        """See `Cell`. Python's numbers have room where the kernel takes two words."""
        words: list[int] = []
        for read, total, least, most in self._measured:
            words += (read, total, 0, least + (1 << 63) ^ WORD, most + (1 << 63))
        yield Tallied(self.probe, self.pid, self.count, tuple(words), values=self.values)


class HistogramCell(Cell):
    """Counts values in buckets: see `lbtrace.tables.histogram`."""

    __slots__ = ("_buckets",)

    def __init__(
        self, probe: int, pid: int, values: tuple[Datum, ...], timed: Sequence[bool]
    ) -> None:
        super().__init__(probe, pid, values, timed)
        self._buckets: dict[int, list[int]] = {}

    def measure(self, number: int, times: Sequence[int]) -> None:
        """See `Cell`."""
        ordered, begin = sorted(times), 0
        while begin < len(ordered):
            bucket = bucket_of(ordered[begin])
            end = bisect_right(ordered, bounds(bucket)[1], begin)
            self._add(bucket, end - begin, sum(ordered[begin:end]))
            begin = end

    def repeat(self, number: int, amount: Amount, count: int) -> None:
        """See `Cell`."""
        if amount is None:
            self._add(NO_BUCKET, count, 0)
        else:
            self._add(bucket_of(amount), count, amount * count)

    def _add(self, bucket: int, count: int, total: int) -> None:
        found = self._buckets.setdefault(bucket, [0, 0])
        found[0] += count
        found[1] += total

    def rows(self) -> Iterator[Tallied]:
        """See `Cell`: a row for each bucket, the first of which has what calls inside took."""
        inner = self.inner
        for bucket, (count, total) in self._buckets.items():
            high = inner if self.timed[0] and not self.values else total >> 32 & WORD
            words = total & WORD, high
            key = pack("<i", bucket)
            yield Tallied(self.probe, self.pid, count, words, key, values=self.values)
            inner = 0
