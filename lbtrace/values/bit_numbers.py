"""Numbers that are kept as bits: the descriptors of an ``fd_set``, processors."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import UNKNOWN_MORE, Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.pointer import Address

MOST = 16
"""Numbers that are shown."""


class BitNumbers(Type, Struct, frozen=True, tag="bit_numbers"):
    """An argument that leads to bits, each of which stands for its number. Their length is counted
    in units of so many ``bits``."""

    name: str
    bits: int = 8
    size: int = 8

    is_number = False

    def is_flat(self) -> bool:
        return False

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot = value.slot

        def read(fetched: Fetched) -> Datum:
            word = fetched.words[slot]
            if fetched.faults >> slot & 1:
                return FAULT if word else Address(0)
            data = bytes(fetched.pieces.get(slot, b""))
            count = (word >> 32) * self.bits
            held = int.from_bytes(data, "little") & (1 << count) - 1
            numbers = [n for n in range(min(count, 8 * len(data))) if held >> n & 1]
            more = UNKNOWN_MORE if count > 8 * len(data) else max(0, len(numbers) - MOST)
            return Elements(tuple(numbers[:MOST]), more)

        return read
