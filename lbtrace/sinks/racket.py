"""What Racket's ``racket/trace`` prints for the same calls, byte for byte.

The rules are those of ``collects/racket/trace.rkt`` (``construct-prefixes``)
and ``collects/racket/pretty.rkt`` (``pp-list``), Racket 8.7: from depth 10 on
the depth is written out; a call that does not fit in 79 columns is broken,
an argument a line. What has no counterpart there: a call that did not return
prints no result; a loss is a comment; an address is ``0x…``; an unreadable
value ``?``; from the second thread on, every line begins with its thread's
number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite, isnan
from typing import Any

from lbtrace.model import (
    Call,
    Char,
    Constant,
    Datum,
    Elements,
    Fields,
    Loss,
    Plan,
    Referent,
    Summary,
    Symbol,
    Text,
    Variant,
)
from lbtrace.sinks.base import Sink, lane, told
from lbtrace.values import UNDECODED, characters, text

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
        self._print(loss, f"; {told(loss)}")

    def end(self, summary: Summary) -> None:
        pass

    def _print(self, call: Call | Loss, lines: str) -> None:
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


# The escapes of strings that both the reader and `print` know.
_ESCAPES = {
    **{"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f"},
    **{"\r": "\\r", "\x1b": "\\e", '"': '\\"', "\\": "\\\\"},
}


def _string(datum: Text) -> str:
    """A string; a byte string where it is not UTF-8; ``…`` behind one that was cut."""
    text = characters(datum)
    mark = "…" if datum.cut else ""
    if any(0xDC80 <= ord(c) <= 0xDCFF for c in text):
        inside = "".join(
            _ESCAPES.get(chr(b)) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in datum.data
        )
        return f'#"{inside}"{mark}'
    return '"' + "".join(_ESCAPES.get(c) or _char_in_string(c) for c in text) + f'"{mark}'


def _char_in_string(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


# Python pads exponents to two digits.
_EXPONENT = re.compile(r"e([+-])0?(\d+)")


def _float(number: float) -> str:
    if isfinite(number):
        return _EXPONENT.sub(r"e\1\2", repr(number))
    return "+nan.0" if isnan(number) else "+inf.0" if number > 0 else "-inf.0"


def _composed(datum: Fields | Variant | Elements | Referent) -> str:
    """A transparent structure, a vector, or what a pointer leads to."""
    if isinstance(datum, Variant):
        fields = "".join(f" {_write(field.value)}" for field in datum.fields)
        return f"({_symbol(datum.name)}{fields})"
    if isinstance(datum, Fields):
        fields = " ".join(_write(field.value) for field in datum.fields)
        return f"({_symbol(datum.type or 'struct')} {fields})"
    if isinstance(datum, Referent):
        return _write(datum.value)
    elements = [_write(e) for e in datum.elements] + ["…"] * (datum.more > 0)
    return f"(vector {' '.join(elements)})"


def _write(datum: Datum) -> str:  # noqa: PLR0911
    if type(datum) is int:
        return str(datum)
    if isinstance(datum, Text):
        return _string(datum)
    if isinstance(datum, Symbol):
        return f"#<procedure:{text(datum)}>"
    if isinstance(datum, Constant):
        return "'" + _symbol(datum)
    if isinstance(datum, float):
        return _float(datum)
    if isinstance(datum, Fields | Variant | Elements | Referent):
        return _composed(datum)
    if datum is None:
        return "#<void>"
    if isinstance(datum, bool):
        return "#t" if datum else "#f"
    if isinstance(datum, Char):
        return "#\\" + (_NAMED_CHARS.get(datum) or _char(datum))
    return text(datum)


def _char(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:  # Racket has no such characters
        char = chr(ord(char) - UNDECODED)
    if char.isprintable():
        return char
    return f"u{ord(char):04X}" if ord(char) < 0x10000 else f"U{ord(char):08X}"
