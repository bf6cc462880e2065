"""The first of several values, as of the messages that ``sendmmsg`` is passed."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum


class FirstOf(Type, Struct, frozen=True, tag="first_of"):
    """As many values as the first member of its value counts. The other members are the first of
    them."""

    name: str
    size: int = 8

    is_number = False

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        count, *firsts = map(probe.reader, value.members)

        def read(fetched: Fetched) -> Datum:
            there = count(fetched)
            if not isinstance(there, int):
                return there
            shown = tuple(first(fetched) for first in firsts[: max(0, there)])
            return Elements(shown, max(0, there) - len(shown))

        return read
