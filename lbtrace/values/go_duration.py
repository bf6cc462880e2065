"""``time.Duration`` of Go: a number of nanoseconds."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, Member, NumberType
from lbtrace.values.datum import WrittenNumber

SECOND = 10**9
SIGN = 1 << 63
UNITS = ((10**6, "ms"), (10**3, "µs"), (1, "ns"))
"""Of what takes less than a second, by nanoseconds."""


class Nanoseconds(WrittenNumber):
    """A number that is written as Go's ``Duration.String`` does: ``1m30.5s``."""

    __slots__ = ()

    def text(self) -> str:
        left = abs(self)
        if 0 < left < SECOND:
            each, unit = next(row for row in UNITS if left >= row[0])
            return f"{'-' * (self < 0)}{_decimal(left, each)}{unit}"
        minutes, rest = divmod(left, 60 * SECOND)
        hours, minutes = divmod(minutes, 60)
        whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return f"{'-' * (self < 0)}{whole}{_decimal(rest, SECOND)}s"


def _decimal(count: int, each: int) -> str:
    """How often ``each``, a power of ten, is in ``count``, to the last digit."""
    whole, rest = divmod(count, each)
    return f"{whole}.{rest:0{len(str(each)) - 1}}".rstrip("0").rstrip(".") if rest else str(whole)


class GoDuration(NumberType, Struct, frozen=True, tag="go_duration"):
    """A span of time, which computes as the ``int64`` that it is."""

    name: str
    size: int = 8
    signed: bool = True

    computes = True

    def time_parts(self) -> tuple[tuple[Member, int, int], ...]:
        return ((Member("", self, 0), 1, SECOND),)

    def decoder(self) -> Decoder:
        return lambda raw: Nanoseconds(((raw & (1 << 64) - 1) ^ SIGN) - SIGN)
