"""Rust's ``std::time::Duration``: seconds, and nanoseconds less than one."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.duration import Ticks

SECOND = 10**9


class RustDuration(Type, Struct, frozen=True, tag="rust_duration"):
    """A duration of ``secs`` and ``nanos``."""

    name: str
    size: int
    secs: Member
    nanos: Member

    through = True

    def named_parts(self) -> tuple[Member, ...]:
        return (self.secs, self.nanos)

    def time_parts(self) -> tuple[tuple[Member, int, int], ...]:
        return ((self.secs, 1, 1), (self.nanos, 1, SECOND))

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        secs, nanos = map(probe.reader, value.members)

        def read(fetched: Fetched) -> Datum:
            whole, rest = secs(fetched), nanos(fetched)
            if not isinstance(whole, int):
                return whole  # why it cannot be read
            return Ticks(whole * SECOND + rest, 1, SECOND) if isinstance(rest, int) else rest

        return read
