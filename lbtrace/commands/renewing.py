"""Tables that are shown while they are made: renewed in place on a terminal, what each interval has
added elsewhere."""

from __future__ import annotations

import os
from argparse import Namespace
from datetime import datetime
from itertools import islice
from typing import IO, Any

from lbtrace.commands.fitting import FittedLines
from lbtrace.commands.streams import owns_line
from lbtrace.model import Aggregates
from lbtrace.sinks.base import Sink
from lbtrace.sinks.tables import Rows, TextTable

LINES = 24
"""Of a terminal that does not say how many it has."""

SPARE = 2
"""Lines of a terminal below a table."""


class Renewal:
    """Shows what ``sink`` gets on ``stream`` as often as it is called with it."""

    def __init__(self, sink: Sink, stream: IO[Any], args: Namespace) -> None:
        asked = getattr(args, "interval", None) is not None
        self._sink = sink if isinstance(sink, Rows) else None
        self._stream = stream
        # What a command prints would stand amid the table.
        renews = isinstance(sink, TextTable) and (asked or not args.command)
        self._in_place = renews and owns_line(stream)
        self._by_interval = asked and not self._in_place
        self._height = 0

    def __call__(self, aggregates: Aggregates) -> None:
        """Show what has been aggregated so far."""
        if self._sink is None:
            return
        if self._by_interval:
            time = datetime.now().astimezone().isoformat(timespec="milliseconds")
            self._sink.interval(aggregates, time)
            self._stream.flush()
        elif self._in_place and isinstance(self._sink, TextTable):
            rows = (os.get_terminal_size(self._stream.fileno()).lines or LINES) - SPARE
            lines = [*islice(self._sink.lines(aggregates), max(1, rows))]
            self.clear()
            FittedLines(self._stream).write("".join(f"{line}\n" for line in lines))
            self._height = len(lines)
            self._stream.flush()

    def clear(self) -> None:
        """Take the table away, where another one is to stand."""
        if self._height:
            self._stream.write(f"\x1b[{self._height}A\r\x1b[J")
            self._height = 0
