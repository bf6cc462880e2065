"""Rust's names of the form v0 (RFC 2603), by rust_demangler, with bounds.

References back into the name let each part expand to twice the part before it.
"""

from __future__ import annotations

import rust_demangler.rust_v0 as v0

LARGEST = 32 << 10
"""Characters of a name, and"""

STEPS = 5_000
"""… pieces that it is put together from."""


LETTERS = 26
"""Lifetimes that are called by a letter."""


class Unbounded(Exception):
    """A name expands beyond the bounds."""


class _Work:
    left = STEPS


class _Printer(v0.Printer):  # type: ignore[misc]
    """A printer that counts its output and that of the printers for references."""

    def __init__(self, parser: v0.Parser, out: str, bound: int, work: _Work) -> None:
        self._work = work
        super().__init__(parser, out, bound)

    @property
    def out(self) -> str:
        return self._out

    @out.setter
    def out(self, text: str) -> None:
        self._work.left -= 1
        if self._work.left < 0 or len(text) > LARGEST:
            raise Unbounded
        self._out = text

    def backref_printer(self) -> _Printer:
        place = self.parser_mut().backref()
        return _Printer(place, self.out, self.bound_lifetime_depth, self._work)

    def print_lifetime_from_index(self, lifetime: int) -> None:
        """Add a lifetime, which rust_demangler refuses where it is the first (``'a``)."""
        depth = self.bound_lifetime_depth - lifetime
        if depth < 0:
            self.invalid()
        named = chr(ord("a") + depth) if depth < LETTERS else f"_{depth}"
        self.out += f"'{named if lifetime else '_'}"

    def invalid(self) -> None:
        raise v0.UnableTov0Demangle(self.parser.inn)


def demangle(name: str) -> str:
    """Return ``name`` as the source writes it. Raises `Unbounded` beyond the bounds, and any error
    of the parser for a damaged name."""
    inner, dot, suffix = name.removeprefix("_R").partition(".")
    if not inner.isascii() or not inner[:1].isupper():
        raise v0.UnableTov0Demangle(name)
    parser = v0.Parser(inner, 0)
    parser.skip_path()
    if inner[parser.next_val : parser.next_val + 1].isupper():
        parser.skip_path()
    printer = _Printer(v0.Parser(inner, 0), "", 0, _Work())
    printer.print_path(True)
    return printer.out + ("" if suffix.startswith("llvm.") else dot + suffix)
