"""Numbers with names, as system calls take them: ``O_WRONLY|O_CREAT``, ``SEEK_SET``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer

PERMISSIONS = 0o777


class Flags(NumberType, Struct, frozen=True, tag="flags"):
    """An integer whose ``values`` have names. The bits of ``field`` together are a number that has
    one, as those of ``O_ACCMODE`` do, the others flags; with -1 all are one number. What has no
    name is an address where the type is a pointer, else a number; permissions are octal."""

    name: str
    size: int
    signed: bool = False
    field: int = 0
    values: tuple[tuple[int, str], ...] = ()

    computes = True
    has_constants = True

    def constants(self) -> tuple[tuple[int, str], ...]:
        return self.values

    def decoder(self) -> Decoder:
        number = Pointer(self.name) if "*" in self.name else None
        integer = (number or Integer(self.name, self.size, self.signed)).decoder()
        mask = (1 << 8 * self.size) - 1
        field = self.field & mask
        numbers = {n & mask: name for n, name in self.values if not n & mask & ~field}
        bits = [(n, name) for n, name in self.values if n & mask & ~field]
        bits.sort(key=lambda each: -each[0].bit_count())  # O_SYNC has the bit of O_DSYNC

        def decode(raw: int) -> Datum:
            rest, found = raw & mask, list[tuple[int, str]]()
            for number, name in bits:
                if rest & number == number:
                    found.append((number, name))
                    rest &= ~number
            low = rest & field
            if low in numbers and (low or field or not (found or rest)):
                found.append((low, numbers[low]))
                rest &= ~field
            octal = rest and field == PERMISSIONS
            if not found and not octal:
                return integer(raw)
            names = [name for _, name in sorted(found)]
            if rest:
                names.append(f"0{rest:o}" if octal else f"{rest:#x}")
            return Constant("|".join(names))

        return decode
