"""A line on the terminal that shows the progress of a trace or an export."""

from __future__ import annotations

import sys
from time import monotonic

from lbtrace.commands.streams import obeys, owns_line
from lbtrace.text import counted

INTERVAL = 0.2
"""Seconds between two showings."""

PATIENCE = 1.0
"""Seconds that steps may take before their progress is shown."""

SELDOM = 20.0
"""Seconds between two lines in a log."""

FEW = 16
"""Fewer steps than this are done soon, even on a busy machine."""


class Progress:
    """Rewrites one line of stderr, where that is a terminal and ``wanted`` holds, while it is not
    a job in the background."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted and obeys(sys.stderr)
        self._shown = False
        self._started = self._next = monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and owns_line(sys.stderr):
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, calls: int, share: float | None = None, lost: int = 0) -> None:
        """Show the number of calls and their rate, the share of the whole that is done (0 to 1)
        where that is known, and what was lost."""
        now = monotonic()
        if not self._wanted or now < self._next:
            return
        self._next = now + INTERVAL
        if not owns_line(sys.stderr):
            return
        self._shown = True
        rate = calls / max(now - self._started, INTERVAL)
        line = f"{counted(calls, 'call')}, {rate:,.0f}/s"
        if share is not None:
            done = int(share * 20)
            line = f"[{'█' * done}{'░' * (20 - done)}] {share:4.0%}  {line}"
        if lost:
            line += f", {lost:,} lost"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


class Steps:
    """Shows the progress of steps on stderr, once they have taken a moment. ``text`` has places for
    two numbers: the steps done and all steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._started: float | None = None
        self._next = 0.0
        self._shown = False

    def show(self, done: int, total: int) -> None:
        """``done`` steps of ``total`` are done."""
        now = monotonic()
        if self._started is None:
            self._started, self._next = now, now + PATIENCE
        if now < self._next or total < FEW:
            return
        line = self._text.format(f"{done:,}", f"{total:,}")
        if owns_line(sys.stderr):
            self._next, self._shown = now + INTERVAL, True
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            self._next = now + SELDOM
            print(f"lbtrace: {line}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away, where there is one."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
