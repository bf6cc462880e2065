"""Raw slots to values, and values to text.

A slot of an event is a register or a piece of memory, zero-extended to 64
bits. What it means is said by its `model.Type`: `decoder` turns a type into a
function once, so that no event has to look at types again. A new kind of type
is a new row in `_DECODERS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias

from lbtrace import model
from lbtrace.model import (
    Address,
    Char,
    Constant,
    Datum,
    Elements,
    Fields,
    Referent,
    Symbol,
    Text,
    Unreadable,
    Variant,
)

LOWEST_ADDRESS = 1 << 16
"""No address lies below: ``vm.mmap_min_addr``."""

UNDECODED = 0xDC00
"""Bytes that are no text become characters from here on (PEP 383)."""

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

    Integers are decimal, truth values ``true`` and ``false``, characters and
    strings quoted and escaped as in C, addresses hexadecimal, records in
    braces, arrays in brackets; a value that could not be read is ``?``, or
    its reason, in angle brackets if it is in words; no value is ``void``. A string that goes on
    ends with ``…`` and, where it is known, its true length.
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


_MAPPED = range(0x5000_0000_0000, 1 << 48)
"""Where Linux puts position-independent programs, their heaps, libraries and stacks
(ELF_ET_DYN_BASE and TASK_SIZE of x86-64, and of arm64 with 48-bit addresses)."""


_HALVES = range(1 << 31, 1 << 32)
"""What a negative ``int`` leaves in a register, but a large unsigned one as well."""


def _word(type_: model.Word) -> Decoder:
    integer = _integer(type_)
    if type_.signed:
        return lambda raw: Address(raw) if raw in _MAPPED or raw in _HALVES else integer(raw)
    mask = (1 << 8 * type_.size) - 1
    return lambda raw: raw & mask if raw & mask < LOWEST_ADDRESS else Address(raw & mask)


def _character(type_: model.Character) -> Decoder:
    mask = (1 << 8 * type_.size) - 1

    def decode(raw: int) -> Datum:
        code = raw & mask
        if mask == 0xFF and code > 0x7F:  # a byte of a longer character, or of none
            return Char(chr(UNDECODED + code))
        # No code point: the bits are no character of this type.
        return Char(chr(code)) if code < 0x110000 else Unreadable(f"no character: {code:#x}")

    return decode


def _boolean(type_: model.Boolean) -> Decoder:
    mask = (1 << 8 * type_.size) - 1
    return lambda raw: raw & mask != 0


def _pointer(type_: model.Pointer) -> Decoder:
    mask = (1 << 8 * type_.size) - 1
    if type_.null:
        null = Constant(type_.null)
        return lambda raw: Address(raw & mask) if raw & mask else null
    return lambda raw: Address(raw & mask)


def _float(type_: model.Float) -> Decoder:
    if type_.size in _WIDE_FLOATS:
        return _wide_float(type_)
    layout = _FLOATS[type_.size]
    mask = (1 << 8 * type_.size) - 1

    def decode(raw: int) -> Datum:
        number: float = layout.unpack((raw & mask).to_bytes(type_.size, "little"))[0]
        return number

    return decode


def _wide_float(type_: model.Float) -> Decoder:
    """Numbers that Python's floats do not hold exactly: they are rounded."""
    fraction_bits, explicit = _WIDE_FLOATS[type_.size]
    infinite = 0x7FFF

    def decode(raw: int) -> Datum:
        exponent = raw >> 8 * type_.size - 16 & infinite
        sign = -1.0 if raw >> 8 * type_.size - 1 & 1 else 1.0
        fraction = raw & (1 << fraction_bits) - 1
        if exponent == infinite:
            return float("nan") if fraction else sign * float("inf")
        whole = explicit and raw >> fraction_bits & 1
        if explicit and exponent and not whole:
            return Unreadable("no number")
        if not explicit:
            whole = int(exponent > 0)
        try:
            shift = max(exponent, 1) - 0x3FFF - fraction_bits
            return sign * math.ldexp(fraction | int(whole) << fraction_bits, shift)
        except OverflowError:
            return Unreadable("more than a double holds")

    return decode


def _enumeration(type_: model.Enumeration) -> Decoder:
    integer = _integer(model.Integer(type_.name, type_.size, type_.signed))
    names: dict[Datum, Datum] = {n: Constant(name) for n, name in reversed(type_.values)}

    def decode(raw: int) -> Datum:
        number = integer(raw)
        return names.get(number, number)

    return decode


def _void(_: model.Void) -> Decoder:
    return lambda raw: None


def _opaque(_: model.Opaque) -> Decoder:
    unknown = Unreadable()
    return lambda raw: unknown


_WIDE_FLOATS = {10: (63, True), 16: (112, False)}
"""Bits of the fraction, and whether the bit before it is stored: Intel SDM volume 1,
section 4.2.2, and IEEE 754 binary128. Both have exponents of 15 bits."""

_FLOATS = {2: Struct("<e"), 4: Struct("<f"), 8: Struct("<d")}

_DECODERS: dict[type, Callable[[Any], Decoder]] = {
    model.Integer: _integer,
    model.Word: _word,
    model.Character: _character,
    model.Boolean: _boolean,
    model.Pointer: _pointer,
    model.Float: _float,
    model.Enumeration: _enumeration,
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
    "\\": r"\\",
}


def escaped(char: str, quote: str) -> str:
    """A character as C writes it between ``quote`` marks."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == quote:
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that is not UTF-8
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def characters(string: Text) -> str:
    """The characters of a string; bytes that are not UTF-8 become the lone
    surrogates U+DC80 to U+DCFF. Of a character that was cut nothing is left."""
    data = string.data
    if string.cut:
        for back in range(1, min(4, len(data)) + 1):
            if data[-back] >= 0xC0:  # the first byte of a longer character
                needed = 2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4
                data = data[:-back] if needed > back else data
                break
            if data[-back] < 0x80:
                break
    return data.decode("utf-8", "surrogateescape")


def _text_text(string: Text) -> str:
    inside = characters(string)
    if not inside.isascii() or not inside.isprintable() or '"' in inside or "\\" in inside:
        inside = "".join([escaped(c, '"') for c in inside])
    if not string.cut:
        return f'"{inside}"'
    known = "" if string.length is None else f" ({string.length:,} bytes)"
    return f'"{inside}"…{known}'


def _fields_text(value: Fields) -> str:
    inside = _members_text(value.fields)
    return f"({inside})" if value.type.startswith("(") else f"{{{inside}}}"


def _members_text(fields: tuple[model.Argument, ...]) -> str:
    return ", ".join([f"{f.name}={text(f.value)}" if f.name else text(f.value) for f in fields])


def _variant_text(value: Variant) -> str:
    if not value.fields:
        return value.name
    inside = _members_text(value.fields)
    named = any(field.name for field in value.fields)
    return f"{value.name}{{{inside}}}" if named else f"{value.name}({inside})"


def _elements_text(value: Elements) -> str:
    shown = [text(e) for e in value.elements]
    return f"[{', '.join([*shown, f'… {value.more:,} more'] if value.more else shown)}]"


def _unreadable_text(value: Unreadable) -> str:
    words = any(char.isalpha() for char in value.reason)
    return f"<{value.reason}>" if words else value.reason or "?"


def results_text(value: Datum) -> str:
    """The several results of a Go function in parentheses, another result as `text`."""
    if isinstance(value, Fields) and not value.type:
        return f"({_fields_text(value)[1:-1]})"
    return text(value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    bool: lambda value: "true" if value else "false",
    Address: lambda value: f"{value:#x}",
    float: repr,
    Char: lambda value: f"'{escaped(value, chr(39))}'",
    Constant: str,
    Symbol: lambda value: value if value.isprintable() else ascii(value)[1:-1],
    Variant: _variant_text,
    Text: _text_text,
    Fields: _fields_text,
    Elements: _elements_text,
    Referent: lambda value: f"&{text(value.value)}",
    str: ascii,
    Unreadable: _unreadable_text,
    type(None): lambda value: "void",
}
