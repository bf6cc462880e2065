"""The table of kinds; instants of Go at the ends of their range."""

from __future__ import annotations

import pytest

from lbtrace.calls.decoders import Readers
from lbtrace.calls.payload import Context
from lbtrace.model import Fetch, Value
from lbtrace.values.base import Fetched
from lbtrace.values.go_time import Time
from lbtrace.values.notation import text


@pytest.mark.parametrize(
    ("wall", "ext", "shown"),
    [
        # Go's documentation of `Time`: with the highest bit, 33 bits count seconds from 1885 on.
        (0, 0, "0001-01-01T00:00:00Z"),
        (1 << 63, 1234, "1885-01-01T00:00:00Z"),
        (1 << 63 | 1 << 30 | 500, 1234, "1885-01-01T00:00:01.0000005Z"),
        (123456789, 62135596800, "1970-01-01T00:00:00.123456789Z"),  # ``unixToInternal``
        (0, -1, "<-1 s since the year 1>"),
        (5, 1 << 62, f"<{1 << 62}.000000005 s since the year 1>"),
    ],
)
def test_times_of_go(wall, ext, shown):
    type = Time("time.Time")
    parts = [Value(p.name, p.type, slot) for slot, p in enumerate(type.named_parts())]
    value = Value("t", type, 0, members=tuple(parts))
    fetches = (Fetch(), Fetch(), Fetch())
    read = Readers(fetches, Context()).reader(value)
    assert text(read(Fetched((wall, ext & (1 << 64) - 1, 0), {}, 0, 1))) == shown
