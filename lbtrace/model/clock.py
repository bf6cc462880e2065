"""The time of day of a trace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Clock(Struct, frozen=True):
    """Both clocks when a trace began: an event at ``t`` was at ``t - monotonic + realtime``, unless
    the time of day was set meanwhile."""

    monotonic: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """CLOCK_MONOTONIC in ns, the clock of events."""
    realtime: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """CLOCK_REALTIME: ns since 1970, UTC."""
    utc_offset: Annotated[int, Meta(ge=-86400, le=86400)] = 0
    """Seconds that local time was ahead of UTC."""
