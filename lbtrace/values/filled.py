"""What a function returns that fills memory, with what it left there."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum
from lbtrace.values.outcome import Filled, within

Success: TypeAlias = Literal["not negative", "positive", "zero"]
"""Which number a function returns that has not failed."""

NEGATIVE = 1 << 63


class Filling(Type, Struct, frozen=True, tag="filled"):
    """The result ``name`` of a function, a number: the first member. The others are what it has
    filled where that number says ``success``. If it is ``bounded``, the last one is the number of
    bytes that the caller had room for: none of the text is beyond."""

    name: str
    size: int
    signed: bool = True
    success: Success = "not negative"
    bounded: bool = False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        first, *parts = value.members
        number = probe.reader(first)
        room = probe.reader(parts.pop()) if self.bounded else None
        filled = [(part.name, probe.reader(part)) for part in parts]

        def read(fetched: Fetched) -> Datum:
            returned = number(fetched)
            most = room(fetched) if room else None
            if most == 0 or not isinstance(returned, int) or not self._succeeded(returned):
                return returned
            fields = [Argument(name, within(read(fetched), most)) for name, read in filled]
            return Filled((Argument("returned", returned), *fields))

        return read

    def _succeeded(self, returned: int) -> bool:
        if self.success == "zero":
            return returned == 0
        least = 1 if self.success == "positive" else 0
        return least <= returned < NEGATIVE
