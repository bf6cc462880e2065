"""``std::chrono::duration``: a number of ticks."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Form
from lbtrace.values.notation import text

UNITS = {
    (1, 10**9): "ns",
    (1, 10**6): "µs",
    (1, 1000): "ms",
    (1, 1): "s",
    (60, 1): "min",
    (3600, 1): "h",
    (86400, 1): "d",
}
"""By seconds as a fraction; C++20, [time.duration.io], where others are ``[n/d]s``."""


class Ticks(Form, Struct, frozen=True):
    """A duration: ``count`` times ``numerator / denominator`` seconds."""

    count: int | float
    numerator: int
    denominator: int

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """As C++20 prints it: ``1500ms``."""
        over = f"/{self.denominator}" if self.denominator != 1 else ""
        unit = UNITS.get((self.numerator, self.denominator), f"[{self.numerator}{over}]s")
        return f"{text(self.count)}{unit}"


class Duration(Type, Struct, frozen=True, tag="duration"):
    """A ``count`` of periods, which take ``numerator / denominator`` seconds each."""

    name: str
    size: int
    count: Type
    numerator: int
    denominator: int

    through = True

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("count", self.count, 0),)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        count = probe.reader(value.members[0])

        def read(fetched: Fetched) -> Datum:
            ticks = count(fetched)
            if not isinstance(ticks, int | float):
                return ticks  # why it cannot be read
            return Ticks(ticks, self.numerator, self.denominator)

        return read
