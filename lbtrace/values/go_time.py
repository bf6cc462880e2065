"""``time.Time`` of Go: an instant."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Form
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer

UNSIGNED, SIGNED = Integer("uint64", 8, False), Integer("int64", 8, True)

HAS_MONOTONIC, SECONDS_SHIFT = 1 << 63, 30
NANOSECONDS = (1 << SECONDS_SHIFT) - 1
FROM_1885 = (1884 * 365 + 1884 // 4 - 1884 // 100 + 1884 // 400) * 86400
"""Seconds from the year 1 to 1885, from which short times count (Go's ``time.wallToInternal``)."""

YEARS = range((9999 * 365 + 9999 // 4 - 9999 // 100 + 9999 // 400) * 86400)
"""Seconds since the year 1 that calendars of four digits have."""


class Instant(Form, Struct, frozen=True):
    """A time in ``seconds`` since the start of the year 1, UTC, and ``nanoseconds``."""

    seconds: int
    nanoseconds: int

    def text(self) -> str:
        """As Go's ``time.RFC3339Nano`` has it, in UTC."""
        fraction = f".{self.nanoseconds:09}".rstrip("0").rstrip(".")
        if self.seconds not in YEARS:
            return f"<{self.seconds}{fraction} s since the year 1>"
        from datetime import datetime, timedelta  # imported here because few programs pass times

        shown = (datetime(1, 1, 1) + timedelta(seconds=self.seconds)).isoformat()
        return f"{shown}{fraction}Z"


class Time(Type, Struct, frozen=True, tag="go_time"):
    """A wall clock reading, a monotonic one beside it or the rest of the former, and a time zone
    (Go's ``time/time.go``)."""

    name: str
    size: int = 24

    def named_parts(self) -> tuple[Member, ...]:
        zone = Pointer("*time.Location", null="nil")
        return (Member("wall", UNSIGNED, 0), Member("ext", SIGNED, 8), Member("loc", zone, 16))

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        clock, rest = (probe.reader(member) for member in value.members[:2])

        def read(fetched: Fetched) -> Datum:
            wall, seconds = clock(fetched), rest(fetched)
            if not isinstance(wall, int) or not isinstance(seconds, int):
                return seconds if isinstance(wall, int) else wall  # why it cannot be read
            if wall & HAS_MONOTONIC:
                seconds = FROM_1885 + ((wall & ~HAS_MONOTONIC) >> SECONDS_SHIFT)
            return Instant(seconds, wall & NANOSECONDS)

        return read
