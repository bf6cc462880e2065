"""The column of a tree with the time of each line.

``clock`` is the time of day where the trace was made, ``relative`` the seconds since the trace
began, negative before all of it was attached, ``delta`` those since the line above, negative where
that shows a later event, of another thread. A call in one line has the time of its beginning.
"""

from __future__ import annotations

from lbtrace.model import Clock
from lbtrace.sinks.layout import TimeColumn

SECOND = 1_000_000_000
DAY = 24 * 3600 * SECOND
"""In ns."""

WIDTHS: dict[TimeColumn, int] = {"clock": 15, "relative": 13, "delta": 13}


class Times:
    """The column. ``clock`` is needed by all kinds but ``delta``."""

    def __init__(self, kind: TimeColumn, clock: Clock | None) -> None:
        self.kind = kind
        self.width = WIDTHS[kind]
        self.previous = 0
        """The time of the line above, 0 if there is none (``delta``)."""
        self.shift = 0
        """What is added to a time (``clock``, modulo a day), or taken from it (``relative``)."""
        if clock and kind == "clock":
            local = clock.realtime + clock.utc_offset * SECOND
            self.shift = (local - clock.monotonic) % DAY
        elif clock and kind == "relative":
            self.shift = clock.monotonic

    @property
    def heading(self) -> str:
        """The name of the column, and what separates it from the next one."""
        name = "TIME" if self.kind == "clock" else self.kind.upper()
        return f"{name:>{self.width}}  "

    def column(self, time: int | None) -> str:
        """Return the column of a line with this time (CLOCK_MONOTONIC, ns); blank if None."""
        return f"{'' if time is None else self._text(time):>{self.width}}  "

    def _text(self, time: int) -> str:
        if self.kind == "clock":
            micros = (time + self.shift) % DAY // 1000
            minutes, micros = divmod(micros, 60_000_000)
            return f"{minutes // 60:02}:{minutes % 60:02}:{micros // 10**6:02}.{micros % 10**6:06}"
        if self.kind == "relative":
            since = self.shift
        else:
            since, self.previous = self.previous or time, time
        seconds, rest = divmod(abs(time - since), SECOND)
        return f"{'-' if time < since else ''}{seconds}.{rest:09}"
