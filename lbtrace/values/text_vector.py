"""The texts of a vector of buffers, as ``writev`` is passed one: ``["HTTP/1.1 200 OK", "…"]``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Unreadable
from lbtrace.values.outcome import within
from lbtrace.values.string import Text


class TextVector(Type, Struct, frozen=True, tag="text_vector"):
    """Buffers, as many as the first member of its value counts. The others are the lengths and
    the texts of the first ones. Where they are ``filled``, the last member says with how many
    bytes: nothing is shown that lies beyond."""

    name: str
    filled: bool = False
    size: int = 8

    is_number = False

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        counted, *parts = value.members
        count = probe.reader(counted)
        filled = probe.reader(parts.pop()) if self.filled else None
        lengths = [probe.reader(part) for part in parts[::2]]
        texts = [probe.reader(part) for part in parts[1::2]]

        def read(fetched: Fetched) -> Datum:
            there = count(fetched)
            left = filled(fetched) if filled else None
            if not isinstance(there, int):
                return there
            found: list[Datum] = []
            for length, text in zip(lengths[:there], texts, strict=False):
                size = length(fetched)
                if left == 0:
                    return Elements(tuple(found))
                shown = text(fetched) if size else Text(b"", 0)
                if isinstance(left, int) and isinstance(size, int):
                    shown = within(shown, min(left, size))
                    left -= min(left, size)
                found.append(size if isinstance(size, Unreadable) else shown)
            if left == 0:
                return Elements(tuple(found))
            return Elements(tuple(found), there - len(found))

        return read
