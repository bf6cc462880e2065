"""The arguments that a program is started with: ``["sleep", "1"]``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.array import UNKNOWN_MORE, Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.pointer import Address


class ArgumentVector(Type, Struct, frozen=True, tag="argument_vector"):
    """An array of texts that a null pointer ends. The members of its value are the first ones."""

    name: str
    size: int = 8

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        readers = [probe.reader(member) for member in value.members]

        def read(fetched: Fetched) -> Datum:
            texts: list[Datum] = []
            for read_text in readers:
                text = read_text(fetched)
                if text == Address(0):
                    return Elements(tuple(texts))
                texts.append(text)
            return Elements(tuple(texts), UNKNOWN_MORE)

        return read
