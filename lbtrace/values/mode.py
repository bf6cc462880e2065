"""Modes of files, whose permissions are written in octal: ``0644``, ``S_IFREG|0644``."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType, Probe, Reader, Value
from lbtrace.values.datum import UNUSED, WrittenNumber

KINDS = {
    0o14: "S_IFSOCK", 0o12: "S_IFLNK", 0o10: "S_IFREG", 0o6: "S_IFBLK", 0o4: "S_IFDIR",
    0o2: "S_IFCHR", 0o1: "S_IFIFO",
}  # fmt: skip
"""What the bits above permissions mean (inode(7))."""


CREATES = 0x400040
"""Flags of open(2) with which it takes a mode: ``O_CREAT`` and ``O_TMPFILE``, everywhere."""


class Permissions(WrittenNumber):
    """A number that is written in octal, after the kind of file."""

    __slots__ = ()

    def text(self) -> str:
        kind = KINDS.get(int(self) >> 12)
        rest = int(self) & 0o7777 if kind else int(self)
        return "|".join(filter(None, (kind, f"0{rest:o}" if rest else "0")))


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
