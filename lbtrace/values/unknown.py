"""Values of kinds that this version does not know: their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lbtrace.text import clean
from lbtrace.values.base import Decoder, Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum, Form


class Bytes(Form, Struct, frozen=True):
    """The bytes of a value of a ``kind`` that is not known here."""

    kind: str
    data: bytes

    def __bytes__(self) -> bytes:
        return self.data

    def text(self) -> str:
        return f"<{clean(self.kind)}: {self.data.hex(' ') or 'no bytes'}>"

    def json(self) -> str:
        return self.data.hex()

    def lacks(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        yield path, {"kind": self.kind}


class Unknown(Type, Struct, frozen=True, tag="unknown"):
    """A type of a ``kind`` that a later version has added."""

    kind: str
    name: str = ""
    size: int = 0

    def is_flat(self) -> bool:
        return False

    def decoder(self) -> Decoder:
        kind, size = self.kind, min(self.size or 8, 8)
        return lambda raw: Bytes(kind, (raw & (1 << 8 * size) - 1).to_bytes(size, "little"))

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """Return the bytes of all that was fetched of it, part by part."""
        kind = self.kind
        parts = {(part.slot, part.offset): part for part in _parts(value) if part.slot >= 0}
        readers = [Unknown(kind, "", p.type.size).slot_reader(p, probe) for p in parts.values()]

        def read(fetched: Fetched) -> Datum:
            found = [read_part(fetched) for read_part in readers]
            lost = (part for part in found if not isinstance(part, Bytes))
            data = b"".join(part.data for part in found if isinstance(part, Bytes))
            return next(lost, Bytes(kind, data))

        return read

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot, start, size, kind = value.slot, value.offset, self.size, self.kind
        decode, in_memory = self.decoder(), probe.is_piece(slot)

        def read(fetched: Fetched) -> Datum:
            if fetched.faults >> slot & 1:
                return FAULT
            if not in_memory:
                return decode(fetched.words[slot] >> 8 * start)
            piece = bytes(fetched.pieces.get(slot, b""))
            return Bytes(kind, piece[start : start + size] if size else piece[start:])

        return read


def _parts(value: Value) -> Iterator[Value]:
    """The parts that are fetched by themselves."""
    if not value.members:
        yield value
    for member in value.members:
        yield from _parts(member)
