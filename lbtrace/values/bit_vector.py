"""``std::vector<bool>``: truth values of one bit each."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Member, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.map import COUNT

SHOWN = 8
"""Truth values that are shown of a vector."""


class BitVector(Type, Struct, frozen=True, tag="bit_vector"):
    """A record that keeps bits at the address at ``pointer``. ``counts`` are the offsets of words
    that tell their number: one is that number, or three are the address of the first byte, that of
    the last one, and the number of bits in that."""

    name: str
    size: int
    pointer: int
    counts: tuple[int, ...]

    through = True

    def is_flat(self) -> bool:
        return False

    def named_parts(self) -> tuple[Member, ...]:
        return (Member("size", COUNT, self.counts[0]),) if len(self.counts) == 1 else ()

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are the words that tell the number, and the first bits."""
        *counts, first = (probe.reader(member) for member in value.members)

        def read(fetched: Fetched) -> Datum:
            words = [each for each in (word(fetched) for word in counts) if isinstance(each, int)]
            if len(words) < len(counts):
                return FAULT
            count = words[0]
            if len(words) > 1:
                begin, last, bits_of_last = words
                count = 8 * (last - begin) + (bits_of_last & 0xFFFF_FFFF)
            bits = first(fetched) if count else 0
            if not isinstance(bits, int):
                return bits  # why they cannot be read
            shown = tuple([bool(bits >> n & 1) for n in range(min(count, SHOWN))])
            return Elements(shown, count - len(shown))

        return read
