"""Reads the clocks of this machine."""

from __future__ import annotations

import time

from lbtrace.model import Clock


def read() -> Clock:
    """Return the present time, by all clocks."""
    before = time.monotonic_ns()
    realtime = time.time_ns()
    after = time.monotonic_ns()
    offset = time.localtime(realtime // 1_000_000_000).tm_gmtoff
    return Clock((before + after) // 2, realtime, offset)
