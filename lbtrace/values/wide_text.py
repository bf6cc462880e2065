"""Text of characters of two or four bytes: UTF-16 and UTF-32."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, NOT_READ, UNDECODABLE, Datum, Unreadable
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Address
from lbtrace.values.string import Text

CODECS = {2: "utf-16-le", 4: "utf-32-le"}


class WideText(Type, Struct, frozen=True, tag="wide_text"):
    """Text of characters of ``unit`` bytes, up to a NUL: an array, or what a pointer ``leads`` to.
    Where ``pointer`` and ``length`` are not negative it is a record with those two words, at these
    offsets, the latter in characters. With ``short`` (libc++) the lowest bit of the record says
    that it is so; else it is the text itself, from its second character on, after twice its
    length."""

    name: str
    size: int
    unit: int
    leads: bool = False
    pointer: int = -1
    length: int = -1
    short: bool = False

    through = True
    is_number = False

    def is_flat(self) -> bool:
        return self.pointer < 0 and not self.leads

    def counted(self) -> tuple[Member, Member | None, int] | None:
        if self.length < 0 or self.short:
            return None
        return Member("", Integer("unsigned long", 8, False), self.length), None, 1

    def is_sound(self) -> bool:
        return self.unit in CODECS

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return a string of libc++, which lies in its record where it is short."""
        slot, long = value.members[0].slot, self.slot_reader(value.members[1], probe)

        def read(fetched: Fetched) -> Datum:
            if fetched.faults >> slot & 1:
                return FAULT
            record = bytes(fetched.pieces.get(slot, b""))
            if not record or record[0] & 1:
                return long(fetched)
            end = self.unit * (1 + (record[0] >> 1))
            return self._decoded(record[self.unit : end], end - self.unit)

        return read

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot, fault, start = value.slot, 1 << value.slot, value.offset
        if not probe.is_piece(slot):
            return lambda fetched: UNDECODABLE
        size = self.size if self.is_flat() else 0

        def read(fetched: Fetched) -> Datum:
            if fetched.faults & fault:
                return FAULT if fetched.words[slot] or size else Address(0)
            data = bytes(fetched.pieces.get(slot, b""))
            if size:
                data = data[start : start + size]
                if not data:
                    return NOT_READ
            whole = size or (fetched.words[slot] >> 32 if self.pointer >= 0 else -1)
            return self._decoded(data, whole)

        return read

    def _decoded(self, data: bytes, size: int) -> Datum:
        """The text in ``data``, of which there are ``size`` bytes, if that is known."""
        units = [data[at : at + self.unit] for at in range(0, len(data), self.unit)]
        cut = size != len(data)
        if self.pointer < 0 and bytes(self.unit) in units:
            units, cut = units[: units.index(bytes(self.unit))], False
        if cut and units and self.unit == 2 and units[-1][1] & 0xFC == 0xD8:
            units.pop()  # the first half of a character
        try:
            decoded = b"".join(units).decode(CODECS[self.unit], "surrogatepass")
        except UnicodeDecodeError as error:
            wrong = int.from_bytes(units[error.start // self.unit], "little")
            return Unreadable(f"no character: {wrong:#x}")
        raw = decoded.encode("utf-8", "surrogatepass")
        return Text(raw, None if cut else len(raw))
