"""How a format is laid out, as the options of the command line choose it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

TimeColumn: TypeAlias = Literal["clock", "relative", "delta"]


class Layout(Struct, frozen=True):
    """What a sink shows beside calls, and how."""

    color: bool = False
    """Colours, for a terminal."""
    shows_cpu: bool = False
    """The processors on which calls begin and end; then sinks get these calls one by one."""
    time: TimeColumn | None = None
    """Trees: a column with the time of each line."""


PLAIN = Layout()
"""Nothing beside calls."""
