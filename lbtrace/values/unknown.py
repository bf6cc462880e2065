"""Values of kinds that this version does not know."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum, Unreadable


class Unknown(Type, Struct, frozen=True, tag="unknown"):
    """A type of a ``kind`` that a later version has added."""

    kind: str
    name: str = ""
    size: int = 0

    def is_flat(self) -> bool:
        return False

    def decoder(self) -> Decoder:
        unknown = self.absent("")
        return lambda raw: unknown

    def reader(self, value: Value, probe: Probe) -> Reader:
        unknown = self.absent(value.reason)
        return lambda fetched: unknown

    def absent(self, reason: str) -> Datum:
        return Unreadable(reason or f"of the kind {self.kind}, which this version does not know")
