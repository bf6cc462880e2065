"""How a trace runs."""

from __future__ import annotations

import mmap
from typing import Literal

from msgspec import Struct

from lbtrace.errors import UsageError
from lbtrace.validation import (
    LARGEST_RING,
    check_boolean,
    check_choice,
    check_number,
    check_seconds,
    wrong_kind,
)


class Options(Struct, frozen=True):
    """How a trace runs.

    * ``ring_size``: bytes of the ring buffer between the kernel and lbtrace, a power of two
      from 4096 to 2 GiB.
    * ``duration``: seconds after which the trace ends, None for no bound.
    * ``max_events``: calls that have ended, and points, after which it ends, None for no bound.
    * ``mode``: how probes are attached: ``session`` (Linux 6.13), ``multi`` (6.6), ``plain``
      (5.10); None takes the best that the kernel has.
    * ``until_last``: continue until all followed processes have ended, daemons among them, not just
      the first.
    * ``interval``: seconds between two readings of what the kernel aggregates; more where reading
      takes long.
    """

    ring_size: int = 8 << 20
    duration: float | None = None
    max_events: int | None = None
    mode: Literal["session", "multi", "plain"] | None = None
    until_last: bool = False
    interval: float = 1.0


def check_ring(options: Options) -> None:
    """Raise `UsageError` where no ring buffer has the size."""
    ring = options.ring_size
    if ring & (ring - 1) or ring < mmap.PAGESIZE:
        raise UsageError(
            f"a ring of {ring} bytes is not possible", "give a power of two from 4K on"
        )


def check_options(options: object) -> None:
    """Check that each of ``options`` is possible; of the ring's size the rest is the session's.

    Raises `UsageError`.
    """
    if not isinstance(options, Options):
        raise wrong_kind("options", options, "lbtrace.Options", "write options=lbtrace.Options()")
    check_number("ring_size", options.ring_size, 1, LARGEST_RING)
    check_boolean("until_last", options.until_last)
    if options.max_events is not None:
        check_number("max_events", options.max_events, 1)
    if options.mode is not None:
        check_choice("mode", options.mode, ("session", "multi", "plain"))
    check_seconds("interval", options.interval)
    if options.duration is not None:
        check_seconds("duration", options.duration)


def check_aggregating(max_depth: int | None, options: Options | None) -> None:
    """Raise `UsageError` where something is asked about calls that the kernel does not know where
    it aggregates."""
    if max_depth is not None:
        raise UsageError("calls that are counted have no known depth", "omit max_depth")
    if options is not None and options.max_events is not None:
        raise UsageError("counting sends no events", "give Options(duration=...) to end it")
