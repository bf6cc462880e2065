"""Text, however a language keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lbtrace.values.base import (
    UNKNOWN_LENGTH,
    Fetched,
    Member,
    NativeForm,
    Probe,
    Reader,
    Type,
    Value,
)
from lbtrace.values.datum import FAULT, UNDECODABLE, Datum, Form
from lbtrace.values.integer import Integer
from lbtrace.values.notation import encodable, escaped
from lbtrace.values.pointer import Address


class Text(Form, Struct, frozen=True):
    """The value of a string: ``data``, its bytes as far as they were read, and ``length``, the
    true one in bytes; None where it was cut and its true length is unknown.

    ``bytes(text)`` is the data, ``str(text)`` its characters (UTF-8): a byte that is none is
    written ``\\xff``, and a string that was cut ends with ``…``.
    """

    data: bytes
    length: int | None

    syntax = "string"

    def beginning(self, length: int) -> Text | None:
        """Return so many bytes of it; None where that is not known."""
        if length <= len(self.data):
            return Text(self.data[:length], length)
        return Text(self.data, length) if length <= (self.length or 0) else None

    @property
    def is_whole(self) -> bool:
        return not self.cut

    @property
    def cut(self) -> bool:
        """Whether there is more of it."""
        return self.length != len(self.data)

    def __str__(self) -> str:
        return encodable(characters(self)) + "…" * self.cut

    def __bytes__(self) -> bytes:
        return self.data

    def text(self) -> str:
        inside = characters(self)
        if not inside.isascii() or not inside.isprintable() or '"' in inside or "\\" in inside:
            inside = "".join([escaped(c, '"') for c in inside])
        if not self.cut:
            return f'"{inside}"'
        known = "" if self.length is None else f" ({self.length:,} bytes)"
        return f'"{inside}"…{known}'

    def json(self) -> str:
        return characters(self)

    def label(self) -> str:
        return self.text() if self.cut else characters(self)

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.cut:
            yield path, {"length": self.length}

    def column(self) -> str:
        return str(self)


def characters(string: Text) -> str:
    """Return the characters of a string; bytes that are not UTF-8 become the lone
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


class String(Type, Struct, frozen=True, tag="string"):
    """Text, however it is kept. Where ``pointer`` and ``length`` are not
    negative it is a record with those two words, at these offsets. With ``short``
    (libc++) the lowest bit of the record says that it is so; else it is the text
    itself, after a byte with twice its length."""

    name: str
    size: int = 8
    pointer: int = -1
    length: int = -1
    short: bool = False

    through = True
    is_number = False

    def is_flat(self) -> bool:
        return False

    def is_text(self) -> bool:
        return True

    def counted(self) -> tuple[Member, Member | None, int] | None:
        is_there = self.length >= 0 and not self.short
        return (
            (Member("", Integer("unsigned long", 8, False), self.length), None, 1)
            if is_there
            else None
        )

    def long_text(self) -> tuple[int, int] | None:
        return (self.pointer, self.length) if self.short else None

    def native_form(self) -> NativeForm:
        return "text"

    def mark(self, number: int) -> tuple[str, Datum]:
        return text_mark(number)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return a string of libc++, which lies in its record where it is short."""
        slot, long = value.members[0].slot, text_reader(value.members[1].slot)

        def read(fetched: Fetched) -> Datum:
            if fetched.faults >> slot & 1:
                return FAULT
            record = bytes(fetched.pieces.get(slot, b""))
            if not record or record[0] & 1:
                return long(fetched)
            length = record[0] >> 1
            return Text(record[1 : 1 + length], length) if length < len(record) else FAULT

        return read

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        if not probe.is_piece(value.slot):
            if self.pointer >= 0:
                return lambda fetched: UNDECODABLE
            return lambda fetched: Address(fetched.words[value.slot])  # of text not written yet
        return text_reader(value.slot)


def text_reader(slot: int) -> Reader:
    """Return what reads the text that was fetched into ``slot``."""
    fault = 1 << slot

    def read(fetched: Fetched) -> Datum:
        word = fetched.words[slot]
        if fetched.faults & fault:
            # The word is then the address. No string is at the null pointer.
            return FAULT if word else Address(0)
        length = word >> 32
        known = None if length == UNKNOWN_LENGTH else length
        return Text(bytes(fetched.pieces.get(slot, b"")), known)

    return read


def text_mark(number: int) -> tuple[str, Datum]:
    """See `Type.mark`."""
    mark = f"lbt_mark_{number:04}"
    return mark, Text(mark.encode(), len(mark))


TEXT, GO_TEXT = String("str"), String("", 16, 0, 8)
"""Text at an address; and text to which two words lead, its address and its length."""
