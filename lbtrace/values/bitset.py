"""``std::bitset``: bits."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Token


class Digits(Token):
    """The value of a bitset: its bits, the highest first, as it prints them."""

    __slots__ = ()

    def text(self) -> str:
        return f"0b{self}"


class Bitset(Type, Struct, frozen=True, tag="bitset"):
    """A record that is ``count`` bits."""

    name: str
    size: int
    count: int

    through = True

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        words = [probe.reader(member) for member in value.members]

        def read(fetched: Fetched) -> Datum:
            whole = 0
            for n, word in enumerate(words):
                part = word(fetched)
                if not isinstance(part, int):
                    return part
                whole |= part << 64 * n
            return Digits(f"{whole & (1 << self.count) - 1:0{self.count}b}")

        return read
