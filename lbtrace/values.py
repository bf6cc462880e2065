"""Raw slots to values, and values to text.

A slot of an event is a register or a piece of memory, zero-extended to 64
bits. What it means is said by its `model.Type`: `decoder` turns a type into a
function once, so that no event has to look at types again. A new kind of type
is a new row in `_DECODERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from lbtrace import model
from lbtrace.model import Address, Char, Datum, Unreadable

Decoder: TypeAlias = Callable[[int], Datum]
"""A raw, zero-extended 64-bit slot to the value it holds."""


def decoder(type_: model.Type) -> Decoder:
    """The function that turns a raw slot into a value of ``type_``.

    Bytes of the slot above the size of the type are ignored: the System V
    convention (psABI 3.2.3) leaves them undefined in a register.
    """
    return _DECODERS[type(type_)](type_)


def text(datum: Datum) -> str:
    """A value as the source would write it.

    Integers are decimal, truth values ``true`` and ``false``, characters
    quoted and escaped as in C, addresses hexadecimal; a value that could not
    be read is ``?``, or its reason in angle brackets; no value is ``void``.
    """
    if type(datum) is int:
        return str(datum)
    return _TEXTS[type(datum)](datum)


def _integer(type_: model.Integer) -> Decoder:
    mask = (1 << 8 * type_.size) - 1
    if not type_.signed:
        return mask.__and__
    sign = (mask >> 1) + 1
    return lambda raw: ((raw & mask) ^ sign) - sign


def _character(type_: model.Character) -> Decoder:
    mask = (1 << 8 * type_.size) - 1

    def decode(raw: int) -> Datum:
        code = raw & mask
        # No code point: the bits are no character of this type.
        return Char(chr(code)) if code < 0x110000 else Unreadable(f"no character: {code:#x}")

    return decode


def _boolean(type_: model.Boolean) -> Decoder:
    mask = (1 << 8 * type_.size) - 1
    return lambda raw: raw & mask != 0


def _pointer(type_: model.Pointer) -> Decoder:
    mask = (1 << 8 * type_.size) - 1
    return lambda raw: Address(raw & mask)


def _void(_: model.Void) -> Decoder:
    return lambda raw: None


def _opaque(_: model.Opaque) -> Decoder:
    unknown = Unreadable()
    return lambda raw: unknown


_DECODERS: dict[type, Callable[[Any], Decoder]] = {
    model.Integer: _integer,
    model.Character: _character,
    model.Boolean: _boolean,
    model.Pointer: _pointer,
    model.Void: _void,
    model.Opaque: _opaque,
}

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
    "'": r"\'",
    "\\": r"\\",
}


def _char_text(char: str) -> str:
    if char in _ESCAPES:
        return f"'{_ESCAPES[char]}'"
    if char.isprintable():
        return f"'{char}'"
    code = ord(char)
    if code < 0x100:
        return f"'\\x{code:02x}'"
    return f"'\\u{code:04x}'" if code < 0x10000 else f"'\\U{code:08x}'"


_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    bool: lambda value: "true" if value else "false",
    Address: lambda value: f"{value:#x}",
    Char: _char_text,
    str: ascii,
    Unreadable: lambda value: f"<{value.reason}>" if value.reason else "?",
    type(None): lambda value: "void",
}
