"""Values as text: how the source would write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lbtrace.text import clean, escape, is_clean

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    class Form(Protocol):
        """See `lbtrace.values.datum.Form`, which needs this module."""

        def text(self) -> str: ...

    class Argument(Protocol):
        """See `lbtrace.values.datum.Argument`."""

        @property
        def name(self) -> str: ...
        @property
        def value(self) -> Datum: ...

    Datum: TypeAlias = "bool | int | float | str | Form | None"

# C11 6.4.4.4: the simple escape sequences.
_ESCAPES = {
    "\0": r"\0",
    "\a": r"\a",
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\v": r"\v",
    "\f": r"\f",
    "\r": r"\r",
    "\\": r"\\",
}


def text(datum: Datum) -> str:
    """Return a value as the source would write it.

    Integers are decimal, truth values ``true`` and ``false``, characters and
    strings quoted and escaped as in C, addresses hexadecimal, records in
    braces, arrays in brackets; a value that could not be read is ``?``, or
    its reason, in angle brackets if it is in words; no value is ``void``. A string that was cut
    ends with ``…`` and, where it is known, its true length.
    """
    if type(datum) is int:
        return str(datum)
    write = _TEXTS.get(type(datum))
    return write(datum) if write else datum.text()  # type: ignore[union-attr]  # it is a Form


def escaped(char: str, quote: str) -> str:
    """Return a character as C writes it between ``quote`` marks."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == quote:
        return "\\" + char
    return char if is_clean(char) else escape(char)


def members_text(members: Iterable[Argument], more: int) -> str:
    """Members, and how many more there are."""
    shown = [f"{clean(m.name)}={text(m.value)}" if m.name else text(m.value) for m in members]
    return ", ".join([*shown, f"… {more:,} more"] if more else shown)


def argument_text(argument: Argument) -> str:
    """Return an argument or member with its name, if it has one that is `shown_name`."""
    return shown_name(argument.name) + text(argument.value)


SHOWN_NAME = re.compile(r"""(?!\d*$)([\w$.:[\]()+*&|^~/%, "'-]|->|<<|>>)+""")
"""Names and expressions; not those of types, which bases have, nor the numbers of tuples' parts."""


def shown_name(name: str) -> str:
    """Return what stands before a value that has a name, as of ``node->key``, ``v[1]``, ``a|b`` and
    ``len(v)``; nothing where that is not shown. Go calls results without a name ``~r0``, and parts
    of strings and slices ``text.len``."""
    return f"{name}=" if SHOWN_NAME.fullmatch(name) else ""


def unreadable_text(reason: str) -> str:
    """Return what stands for a value that could not be read."""
    words = any(char.isalpha() for char in reason)
    return f"<{clean(reason)}>" if words else clean(reason) or "?"


def encodable(characters: str) -> str:
    """Text that can be encoded: bytes that are not UTF-8 (lone surrogates) become ``\\xff``."""
    if characters.isascii():
        return characters
    data = characters.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "backslashreplace")


def results_text(value: Datum) -> str:
    """Return the several results of a Go function in parentheses, another result as `text`."""
    fields = getattr(value, "fields", None)
    if fields is None or getattr(value, "type", None) != "":
        return text(value)
    return f"({members_text(fields, getattr(value, 'more', 0))})"


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    float: repr,
    str: lambda value: f'"{"".join([escaped(c, chr(34)) for c in value])}"',
    type(None): lambda value: "void",
}
"""Of values that are no `Form`."""
