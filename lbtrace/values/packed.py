"""What lies in the bytes where an argument leads: one structure or number, or several."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import UNKNOWN_LENGTH, Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.pointer import Address


class Packed(Type, Struct, frozen=True, tag="packed"):
    """An argument of type ``name`` that leads to one ``element``, or, where there are ``several``,
    to as many as the length of its bytes says, of which so many are shown."""

    name: str
    element: Type
    several: int = 0
    size: int = 8

    is_number = False

    def is_flat(self) -> bool:
        return False

    def bare(self) -> Packed:
        return self

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot, step, several = value.slot, self.element.size, self.several
        parts = [
            probe.reader(_lying(self.element, slot, number * step))
            for number in range(several or 1)
        ]

        def read(fetched: Fetched) -> Datum:
            word = fetched.words[slot]
            if fetched.faults >> slot & 1:
                return FAULT if word else Address(0)
            if not several:
                return parts[0](fetched)
            length = word >> 32
            shown = parts[: len(fetched.pieces.get(slot, b"")) // step]
            more = -1 if length == UNKNOWN_LENGTH else length // step - len(shown)
            return Elements(tuple([read(fetched) for read in shown]), more)

        return read


def _lying(type: Type, slot: int, offset: int, name: str = "") -> Value:
    """A value that lies so far into the bytes of a slot, with its parts."""
    members = tuple(
        _lying(part.type, slot, offset + part.offset, part.name) for part in type.named_parts()
    )
    return Value(name, type.bare() if members else type, slot, offset=offset, members=members)
