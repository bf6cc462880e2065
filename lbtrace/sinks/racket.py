"""What Racket's ``racket/trace`` prints for the same calls, byte for byte.

The rules are those of ``collects/racket/trace.rkt`` (``construct-prefixes``)
and ``collects/racket/pretty.rkt`` (``pp-list``), Racket 8.7: from depth 10 on
the depth is written out; a call that does not fit in 79 columns is broken,
an argument a line. What has no counterpart there: a call that did not return
prints no result; a loss is a comment, and so is a point; an address is ``0x…``; an unreadable
value ``?``; a forked process continues
its parent's calls, as comments say; from the second thread on, every line begins with its thread's
number; with ``--cpu`` a comment ends each entry and return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from lbtrace.model import Argument, Call, Datum, Fork, Form, InheritedCall, Loss, Plan
from lbtrace.sinks.base import describe_loss, lane
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.line_sink import Lines, LineSink, Piece, Pieces
from lbtrace.text import clean, is_clean
from lbtrace.values import text
from lbtrace.values.character import UNDECODED
from lbtrace.values.datum import Syntax
from lbtrace.values.string import characters

if TYPE_CHECKING:
    from lbtrace.calls.fast_path import FastBatch

COLUMNS = 79
"""The default of ``pretty-print-columns``."""

NUMBERED_DEPTH, NUMBERED_PREFIX = 10, 6
"""``max-dash-space-depth`` and ``number-nesting-depth``."""

BREAK = "\0"
"""Where a line is broken if it is too long; else a space. No value has it, nor a name."""


class Racket(LineSink):
    """See the module."""

    name = "racket"

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout)
        self._only: tuple[int, int] | None = None
        self._are_several = False  # whose lines begin with their number

    def entry(self, call: Call) -> None:
        line = f"({_symbol(call.name)}{self.arguments(call.probe, call.args)})"
        self._print(call, _prefix(call.depth, ">") + line, call.cpu)

    def exit(self, call: Call) -> None:
        if call.end == "returned":
            self._print(call, _prefix(call.depth, "<") + _write(call.result), call.end_cpu)

    def takes(self, fast_batch: FastBatch) -> bool:
        lanes = (each.key for each in fast_batch.lanes if each.first is not None)
        return self._are_several or all(key == self._only for key in lanes)

    def fast_batch(self, fast_batch: FastBatch) -> None:
        text, _ = self.native_lines(fast_batch)
        lines = text.split("\n")
        if max(map(len, lines)) > COLUMNS:
            text = "\n".join(map(self._fit, lines))
        self._stream.write(text.replace(BREAK, " "))

    def lines(self, number: int, arguments: Pieces, result: Pieces) -> Lines:
        """See `LineSink`."""
        from lbtrace.sinks import lines

        name = _symbol(self._plan.functions[self._plan.probes[number].function].name)
        thread: list[Piece | str] = [lines.lane_number(0), " "] if self._are_several else []
        returned = [*thread, lines.INDENT_OF_END, *result, "\n"]
        entry = [*thread, lines.INDENT, f"({name}", *arguments, ")\n"]
        return Lines(entry, returned, returned, (), ())

    def value(self, value: Datum) -> str:
        """See `LineSink`."""
        return _write(value)

    def class_name(self, name: str) -> str:
        """See `LineSink`."""
        return _symbol(name)

    def arguments(self, probe: int, arguments: Sequence[Argument]) -> str:
        """See `LineSink`."""
        return "".join([BREAK + _write(argument.value) for argument in arguments])

    def result(self, probe: int, result: Datum) -> str:
        """See `LineSink`."""
        return _write(result)

    def indents(self, depth: int) -> tuple[str, str]:
        """See `LineSink`."""
        return _prefix(depth, ">"), _prefix(depth, "<")

    def point(self, point: Call) -> None:
        values = "".join(f" {_symbol(a.name)}={_write(a.value)}" for a in point.args)
        self._print(point, f"; {_prefix(point.depth, ' ')}{clean(point.name)}{values}", point.cpu)

    def loss(self, loss: Loss) -> None:
        self._print(loss, f"; {describe_loss(loss)}")

    def fork(self, fork: Fork) -> None:
        self._print(fork, f"; {_prefix(fork.depth, ' ')}forked by {fork.parent}")

    def inherited(self, call: InheritedCall) -> None:
        if call.end == "returned":
            line = _prefix(call.depth, "<") + _write(call.result)
            self._print(call, f"{line} ; entered in {call.maker}", call.end_cpu)

    def _print(self, call: Call | Loss | Fork, line: str, cpu: int | None = None) -> None:
        key = call.pid, lane(call)
        if key != self._only and not self._are_several:
            self._are_several = self._only is not None
            self._only, self._writer = key, None
        if self._are_several:
            line = f"{lane(call)} {line}"
        line = self._fit(line).replace(BREAK, " ")
        if self.layout.shows_cpu and cpu is not None:
            line += f" ; CPU {cpu}"
        self._stream.write(line + "\n")

    def _fit(self, line: str) -> str:
        """Return a line, broken if it is too long. The thread before it does not count."""
        if len(line) > COLUMNS and BREAK in line:
            thread = line[: line.index(" ") + 1] if self._are_several else ""
            if len(line) > len(thread) + COLUMNS:
                indent = " " * (line.index("(") + 1 - len(thread))
                return line.replace(BREAK, f"\n{thread}{indent}")
        return line


@lru_cache(maxsize=4096)
def _prefix(depth: int, label: str) -> str:
    if depth >= NUMBERED_DEPTH:
        return f"{_prefix(NUMBERED_PREFIX, label)}[{depth}] "
    return label + f" {label}" * (depth // 2) + " " * (depth % 2)


# Racket's reader does not take these for symbols: delimiters, a leading # that is not #%, and
# whatever reads as a number.
_DELIMITERS = re.compile(r"""[\s()\[\]{}",'`;\\]|^#(?!%)|^\.?$""")
_NUMBER = re.compile(
    r"[+-]?(\d+([/.]\d*)?|\.\d+)([esdfltx][+-]?\d+)?|[+-](inf|nan)\.[0f]|[+-]i", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def _symbol(name: str) -> str:
    name = clean(name)
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


def _string(datum: Any) -> str:
    """A string; a byte string where it is not UTF-8; with ``…`` after one that was cut."""
    text = characters(datum)
    mark = "…" if datum.cut else ""
    if any(0xDC80 <= ord(c) <= 0xDCFF for c in text):
        inside = "".join(
            _ESCAPES.get(chr(b)) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in datum.data
        )
        return f'#"{inside}"{mark}'
    return '"' + "".join(_ESCAPES.get(c) or _char_in_string(c) for c in text) + f'"{mark}'


def _char_in_string(char: str) -> str:
    if is_clean(char):
        return char
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


# Python pads exponents to two digits.
_EXPONENT = re.compile(r"e([+-])0?(\d+)")


def _float(number: float) -> str:
    if isfinite(number):
        return _EXPONENT.sub(r"e\1\2", repr(number))
    return "+nan.0" if isnan(number) else "+inf.0" if number > 0 else "-inf.0"


def _write(datum: Datum) -> str:
    if type(datum) is int:
        return str(datum)
    if not isinstance(datum, Form):
        return _PLAIN[type(datum)](datum)
    if datum.syntax:
        return _BY_SYNTAX[datum.syntax](datum)
    made_of = datum.expression()
    if made_of is None:
        return text(datum)
    head, parts, more = made_of
    written = [_symbol(head), *map(_write, parts), *["…"] * (more != 0)]
    return f"({' '.join(written)})"


def _char(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:  # Racket has no such characters
        char = chr(ord(char) - UNDECODED)
    if is_clean(char):
        return char
    return f"u{ord(char):04X}" if ord(char) < 0x10000 else f"U{ord(char):08X}"


def _character(char: str) -> str:
    return "#\\" + (_NAMED_CHARS.get(char) or _char(char))


_PLAIN: dict[type, Callable[[Any], str]] = {
    float: _float,
    str: text,
    type(None): lambda _: "#<void>",
    bool: lambda truth: "#t" if truth else "#f",
}
"""Of values that are no `Form`."""

_BY_SYNTAX: dict[Syntax, Callable[[Any], str]] = {
    "string": _string,
    "character": _character,
    "symbol": lambda constant: "'" + _symbol(constant),
    "function": lambda symbol: f"#<procedure:{text(symbol)}>",
    "reference": lambda referent: _write(referent.value),
}
"""Values for which Racket has its own syntax."""
