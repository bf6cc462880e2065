"""Values of one piece: a number, an address, text, out of what was fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lbtrace.calls.gathering import Fetched
from lbtrace.model import Address, Array, Datum, Elements, Fields, Record, Text, Unreadable, Value
from lbtrace.values import decoder

UNKNOWN_LENGTH = 0xFFFF_FFFF

FAULT = Unreadable("fault")
"""A value whose memory the kernel program could not read."""

NOT_READ = Unreadable("not read")
"""A part of a value that lies behind what was fetched."""

Reader: TypeAlias = Callable[[Fetched], Datum]
"""What gets a value out of what was fetched."""


def absent(value: Value) -> Datum:
    """The value of what nothing is fetched for: structs and arrays may have no parts."""
    if isinstance(value.type, Record) and not (value.type.size or value.reason):
        return Fields(value.type.name, ())
    if isinstance(value.type, Array) and not (value.type.count or value.reason):
        return Elements((), 0)
    return Unreadable(value.reason)


def string_reader(slot: int) -> Reader:
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


def characters_reader(value: Value, size: int, in_memory: bool) -> Reader:
    """The text in an array of characters: up to a NUL, or to its end."""
    slot, fault, start = value.slot, 1 << value.slot, value.offset

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & fault:
            return FAULT
        if in_memory:
            data = bytes(fetched.pieces.get(slot, b"")[start : start + size])
        else:
            data = fetched.words[slot].to_bytes(8, "little")[start : start + size]
        text, nul, _ = data.partition(b"\0")
        return Text(text, len(text) if nul or len(data) == size else None)

    return read


def scalar_reader(value: Value, in_memory: bool) -> Reader:
    slot, fault, offset = value.slot, 1 << value.slot, value.offset
    size = getattr(value.type, "size", 8)
    decode = decoder(value.type)
    low, mask = 0, 0
    sign = 0
    if value.bit_size:
        low, mask = value.bit_offset, (1 << value.bit_size) - 1
        size = -(-(low + value.bit_size) // 8)
        sign = 1 << value.bit_size - 1 if getattr(value.type, "signed", False) else 0

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & fault:
            return FAULT
        if in_memory:
            piece = fetched.pieces.get(slot, b"")[offset : offset + size]
            if len(piece) < size:
                return NOT_READ
            raw = int.from_bytes(piece, "little")
        else:
            raw = fetched.words[slot] >> 8 * offset
        if mask:
            raw = raw >> low & mask
            raw = (raw ^ sign) - sign & (1 << 64) - 1
        return decode(raw)

    return read
