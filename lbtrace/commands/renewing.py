"""Tables that are shown while they are made: renewed in place on a terminal, what each interval has
added elsewhere."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import IO, Any

from msgspec.structs import replace

from lbtrace.commands.keyboard import REDRAW, Keyboard
from lbtrace.commands.screen import Screen
from lbtrace.commands.streams import owns_line
from lbtrace.model import Aggregates
from lbtrace.sinks.base import Sink
from lbtrace.sinks.live import Live
from lbtrace.text import clean

KEYS = "< > sort   r reverse   / filter   p pause   q quit"

PREVIOUS, NEXT = ("<", ",", "\x1b[D", "\x1bOD"), (">", ".", "\x1b[C", "\x1bOC")
"""Keys, the arrows among them."""


class Renewal:
    """Shows what ``sink`` gets on ``stream``. Within it, keys change how it is shown, if standard
    input is not that of a command; ``stop`` is called when one ends the trace."""

    def __init__(
        self, sink: Sink, stream: IO[Any], args: Namespace, stop: Callable[[], None]
    ) -> None:
        interval = getattr(args, "interval", None)
        self._stream = stream
        self._stop = stop
        # What a command prints would stand amid the table.
        renews = sink.renews and (interval or not args.command) and owns_line(stream)
        live = sink if isinstance(sink, Live) else None
        self._live = live if renews else None
        self._timed = None if self._live or not interval else live
        self._screen = Screen(stream)
        self._interval = interval or 1.0
        self._by_calls = args.action == "send"
        self._due = time.monotonic() + self._interval if self._timed else 0.0
        self.looks = bool(self._live or (self._timed and self._by_calls))
        """Whether it is to be asked to `look` where nothing happens, too."""
        self._keyboard: Keyboard | None = None
        if self._live and not args.command and owns_line(sys.stdin):
            self._keyboard = Keyboard(sys.stdin)
        self._latest: Aggregates | None = None
        self._paused = False
        self._typed: str | None = None
        """The filter, while it is typed."""
        self._entered = ExitStack()

    def __enter__(self) -> Renewal:
        if self._keyboard:
            self._entered.enter_context(self._keyboard)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def __call__(self, aggregates: Aggregates) -> None:
        """Show what has been aggregated so far."""
        if self._timed:
            now = datetime.now().astimezone().isoformat(timespec="milliseconds")
            self._timed.interval(aggregates, now)
            self._stream.flush()
        elif self._live:
            self._latest = aggregates
            self._renew()

    def look(self) -> None:
        """Do what the keys ask for that were pressed, and what is due. To be called often."""
        for key in self._keyboard.pressed() if self._keyboard else ():
            self._take(key)
        if self._by_calls and (now := time.monotonic()) >= self._due:
            if self._timed:
                self(Aggregates(0))
                self._due = max(self._due + self._interval, now)
            self._renew()

    def finish(self) -> None:
        """Write the last interval, or take the table away where another one is to stand."""
        if self._timed and self._by_calls:
            self(Aggregates(0))
        if self._live and owns_line(self._stream):
            self._screen.clear()
        if self._live:
            self._live.view = replace(self._live.view, width=0)

    def _renew(self) -> None:
        if self._live and not self._paused:
            begun = time.monotonic()
            self._live.hold(self._latest or Aggregates(0))
            self._show()
            now = time.monotonic()
            self._due = now + max(self._interval, 10 * (now - begun))

    def _show(self) -> None:
        if not self._live:
            return
        if not owns_line(self._stream):  # a job in the background
            self._screen.forget()
            return
        self._live.view = replace(self._live.view, width=self._screen.columns)
        lines, left = self._live.screen(self._screen.room - 1)
        self._screen.show([*lines, *self._status(left)])

    def _status(self, left: int) -> list[str]:
        """The line below the table."""
        said = [f"and {left:,} more"] if left else []
        text = self._live.view.text if self._live else ""
        if self._typed is not None:
            return [
                "   ".join([*said, f"filter: {clean(self._typed)}█  Enter keeps it, Esc drops it"])
            ]
        said += [f"with {clean(text)}"] if text else []
        said += ["paused"] if self._paused else []
        said += [KEYS] if self._keyboard else []
        return ["   ".join(said)] if said else []

    def _take(self, key: str) -> None:
        live = self._live
        if live is None:
            return
        if key == REDRAW:
            self._screen.forget()
        elif self._typed is not None:
            self._typed, text = _type(self._typed, key)
            live.view = replace(live.view, text=text)
        elif key == "q":
            self._stop()
            return
        elif key in ("p", " "):
            self._paused = not self._paused
            self._renew()
        elif key == "/":
            self._typed = live.view.text
        elif key == "r":
            live.view = replace(live.view, reverse=not live.view.reverse)
        elif column := _beside(key, *live.columns()):
            live.view = replace(live.view, column=column, reverse=False)
        self._show()


def _beside(key: str, columns: list[str], present: str) -> str:
    """The column beside the present one, or that of a number, from 1 on; empty for other keys."""
    number = columns.index(present) if present in columns else 0
    if key.isascii() and key.isdigit():
        number = int(key) - 1
    elif key in PREVIOUS or key in NEXT:
        number += 1 if key in NEXT else -1
    else:
        return ""
    return columns[number] if 0 <= number < len(columns) else ""


def _type(typed: str, key: str) -> tuple[str | None, str]:
    """What is typed after a key, None where that was the last, and what is looked for."""
    if key in ("\r", "\n"):
        return None, typed
    if key == "\x1b":
        return None, ""
    if key == "\x15":  # Ctrl-U
        return "", ""
    typed = typed[:-1] if key in ("\x7f", "\b") else typed + (key if key.isprintable() else "")
    return typed, typed
