"""``std::chrono::duration`` and ``time_point``: a number of ticks."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Form
from lbtrace.values.go_time import Instant
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


EXPONENTS = {(1, 10**9): 9, (1, 10**6): 6, (1, 1000): 3}
"""Of the parts of a second that have units, how many decimal digits they are behind it."""

EPOCH = 719_162 * 86_400
"""Seconds from the start of the year 1 to that of 1970."""


class Ticks(Form, Struct, frozen=True):
    """A duration: ``count`` times ``numerator / denominator`` seconds."""

    count: int | float
    numerator: int
    denominator: int

    def text(self) -> str:
        """As people say it: ``1.5s`` of 1500 milliseconds. No digit is lost."""
        exponent = EXPONENTS.get((self.numerator, self.denominator), 0)
        if not isinstance(self.count, int) or abs(self.count) < 1000:
            return self.json()
        digits = str(abs(self.count))
        scale = min(exponent, 3 * ((len(digits) - 1) // 3))
        if not scale:
            return self.json()
        shown = f"{digits[:-scale]}.{digits[-scale:]}".rstrip("0").rstrip(".")
        unit = UNITS[1, 10 ** (exponent - scale)]
        return f"{'-' * (self.count < 0)}{shown}{unit}"

    def span(self) -> float:
        whole, rest = divmod(self.count * self.numerator * 10**9, self.denominator)
        return whole + rest / self.denominator if rest else whole

    def json(self) -> str:
        """As C++20 prints it: ``1500ms``."""
        over = f"/{self.denominator}" if self.denominator != 1 else ""
        unit = UNITS.get((self.numerator, self.denominator), f"[{self.numerator}{over}]s")
        return f"{text(self.count)}{unit}"


class Duration(Type, Struct, frozen=True, tag="duration"):
    """A ``count`` of periods, which take ``numerator / denominator`` seconds each. Those of a clock
    that tells the time are ``since_1970``."""

    name: str
    size: int
    count: Type
    numerator: int
    denominator: int
    since_1970: bool = False

    through = True

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("count", self.count, 0),)

    def time_parts(self) -> tuple[tuple[Member, int, int], ...]:
        part = (Member("count", self.count, 0), self.numerator, self.denominator)
        return () if self.since_1970 else (part,)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        count = probe.reader(value.members[0])

        def read(fetched: Fetched) -> Datum:
            ticks = count(fetched)
            if not isinstance(ticks, int | float):
                return ticks  # why it cannot be read
            if self.since_1970 and isinstance(ticks, int):
                seconds, rest = divmod(ticks * self.numerator, self.denominator)
                return Instant(EPOCH + seconds, rest * 10**9 // self.denominator)
            return Ticks(ticks, self.numerator, self.denominator)

        return read
