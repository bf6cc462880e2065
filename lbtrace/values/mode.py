"""Permissions of files, which are written in octal: ``0644``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType, Probe, Reader, Value
from lbtrace.values.datum import Unreadable, WrittenNumber


class Permissions(WrittenNumber):
    """A number that is written in octal."""

    __slots__ = ()

    def text(self) -> str:
        return f"0{int(self):o}" if self else "0"


UNUSED = Unreadable("not used")


class Mode(NumberType, Struct, frozen=True, tag="mode"):
    """An integer that is written in octal. Where it counts only with some of the bits ``needs`` in
    another argument, that is the first of its two members."""

    name: str
    size: int
    needs: int = 0

    computes = True

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1
        return lambda raw: Permissions(raw & mask)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        flags, mode = value.members[0].slot, probe.reader(value.members[1])
        needs = self.needs
        return lambda fetched: mode(fetched) if fetched.words[flags] & needs else UNUSED
