"""Characters of any width."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NativeForm, NumberType
from lbtrace.values.datum import Datum, Token, Unreadable
from lbtrace.values.notation import escaped

UNDECODED = 0xDC00
"""Bytes that are no text become characters from here on (PEP 383)."""


class Char(Token):
    """The value of a character."""

    __slots__ = ()

    syntax = "character"

    def text(self) -> str:
        return f"'{escaped(self, chr(39))}'"


class Character(NumberType, Struct, frozen=True, tag="character"):
    """A character of ``size`` bytes, shown as the source writes it: ``'a'``."""

    name: str
    size: int
    signed: bool

    computes = True

    def is_char(self) -> bool:
        return self.size == 1

    def native_form(self) -> NativeForm:
        return "character" if self.size <= 8 else ""

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1

        def decode(raw: int) -> Datum:
            code = raw & mask
            if mask == 0xFF and code > 0x7F:  # a byte of a longer character, or of none
                return Char(chr(UNDECODED + code))
            # No code point: the bits are no character of this type.
            return Char(chr(code)) if code < 0x110000 else Unreadable(f"no character: {code:#x}")

        return decode
