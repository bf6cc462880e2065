"""Bits with names, as system calls take them: ``O_WRONLY|O_CREAT``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant


class Flags(NumberType, Struct, frozen=True, tag="flags"):
    """An integer whose bits have names: ``values``. Those of ``field`` together are a number that
    has one name, as those of ``O_ACCMODE`` are."""

    name: str
    size: int
    field: int = 0
    values: tuple[tuple[int, str], ...] = ()

    computes = True
    has_constants = True

    def constants(self) -> tuple[tuple[int, str], ...]:
        return self.values

    def decoder(self) -> Decoder:
        mask, field = (1 << 8 * self.size) - 1, self.field
        numbers = {n: name for n, name in self.values if not n & ~field}
        bits = [(n, name) for n, name in self.values if n & ~field]
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
            found.sort()
            names = [name for _, name in found]
            if rest or not names:
                names.append(f"{rest:#x}" if rest else "0")
            return Constant("|".join(names)) if found else rest

        return decode
