"""What Racket's ``racket/trace`` prints for the same calls, byte for byte.

The rules are those of ``collects/racket/trace.rkt`` (``construct-prefixes``)
and ``collects/racket/pretty.rkt`` (``pp-list``), Racket 8.7: from depth 10 on
the depth is written out; a call that does not fit in 79 columns is broken,
an argument a line. What has no counterpart there: a call that did not return
prints no result; an address is ``0x…``; an unreadable value ``?``; from the
second thread on, every line begins with its thread's number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lbtrace.model import Call, Char, Datum, Loss, Plan, Summary
from lbtrace.sinks.base import Sink, lane
from lbtrace.values import text

COLUMNS = 79
"""The default of ``pretty-print-columns``."""

NUMBERED_DEPTH, NUMBERED_PREFIX = 10, 6
"""``max-dash-space-depth`` and ``number-nesting-depth``."""


class Racket(Sink):
    """See the module."""

    name = "racket"

    def __init__(self, stream: Any, plan: Plan, *, color: bool = False) -> None:
        super().__init__(stream, plan, color=color)
        self._lanes: set[tuple[int, int]] = set()

    def entry(self, call: Call) -> None:
        prefix = _prefix(call.depth, ">")
        items = [_symbol(call.name), *(_write(argument.value) for argument in call.args)]
        line = f"{prefix}({' '.join(items)})"
        if len(line) > COLUMNS:
            separator = "\n" + " " * (len(prefix) + 1)
            line = f"{prefix}({separator.join(items)})"
        self._print(call, line)

    def exit(self, call: Call) -> None:
        if call.end == "returned":
            self._print(call, _prefix(call.depth, "<") + _write(call.result))

    def loss(self, loss: Loss) -> None:
        """Racket loses nothing: there is no line for it."""

    def end(self, summary: Summary) -> None:
        pass

    def _print(self, call: Call, lines: str) -> None:
        self._lanes.add((call.pid, lane(call)))
        if len(self._lanes) > 1:
            thread = f"{lane(call)} "
            lines = thread + lines.replace("\n", "\n" + thread)
        self._stream.write(lines + "\n")


@lru_cache(maxsize=4096)
def _prefix(depth: int, label: str) -> str:
    if depth >= NUMBERED_DEPTH:
        return f"{_prefix(NUMBERED_PREFIX, label)}[{depth}] "
    return label + f" {label}" * (depth // 2) + " " * (depth % 2)


# What makes Racket's reader see something else than a symbol: delimiters,
# a leading # that is not #%, and whatever reads as a number.
_DELIMITERS = re.compile(r"""[\s()\[\]{}",'`;\\]|^#(?!%)|^\.?$""")
_NUMBER = re.compile(
    r"[+-]?(\d+([/.]\d*)?|\.\d+)([esdfltx][+-]?\d+)?|[+-](inf|nan)\.[0f]|[+-]i", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def _symbol(name: str) -> str:
    if "|" in name:
        return re.sub(r"""([\s()\[\]{}",'`;\\|])""", r"\\\1", name)
    if _DELIMITERS.search(name) or _NUMBER.fullmatch(name):
        return f"|{name}|"
    return name


_NAMED_CHARS = {
    "\0": "nul",
    "\b": "backspace",
    "\t": "tab",
    "\n": "newline",
    "\v": "vtab",
    "\f": "page",
    "\r": "return",
    " ": "space",
    "\x7f": "rubout",
}


def _write(datum: Datum) -> str:
    if type(datum) is int:
        return str(datum)
    if datum is None:
        return "#<void>"
    if isinstance(datum, bool):
        return "#t" if datum else "#f"
    if isinstance(datum, Char):
        return "#\\" + (_NAMED_CHARS.get(datum) or _char(datum))
    return text(datum)


def _char(char: str) -> str:
    if char.isprintable():
        return char
    return f"u{ord(char):04X}" if ord(char) < 0x10000 else f"U{ord(char):08X}"
