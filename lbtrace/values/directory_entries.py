"""The names of the entries that getdents64(2) has read."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import UNKNOWN_MORE, Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.string import Text

LENGTH, NAME = 16, 19
"""Where a ``struct linux_dirent64`` has its length and its name."""

MOST = 8
"""Names that are shown."""


class DirectoryEntries(Type, Struct, frozen=True, tag="directory_entries"):
    """An argument that leads to as many bytes of entries as are returned."""

    name: str
    size: int = 8

    is_number = False

    def is_flat(self) -> bool:
        return False

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot = value.slot

        def read(fetched: Fetched) -> Datum:
            if fetched.faults >> slot & 1:
                return FAULT
            data = bytes(fetched.pieces.get(slot, b""))
            names, at = _names(data)
            more = UNKNOWN_MORE if at < fetched.words[slot] >> 32 else max(0, len(names) - MOST)
            return Elements(tuple(names[:MOST]), more)

        return read


def _names(data: bytes) -> tuple[list[Text], int]:
    """The names of the entries that are there whole, and where the last of these ends."""
    names: list[Text] = []
    at = 0
    while at + NAME <= len(data):
        end = at + int.from_bytes(data[at + LENGTH : at + NAME - 1], "little")
        if not at + NAME < end <= len(data):
            break
        name = data[at + NAME : end].split(b"\0", 1)[0]
        names.append(Text(name, len(name)))
        at = end
    return names, at
