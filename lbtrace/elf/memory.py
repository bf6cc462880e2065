"""The words of a program's data as they are in memory, before it runs.

In position-independent files pointers are zero until the loader fills them
in; the relocation tables say what it will write (gabi, chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from struct import Struct as Layout

from lbtrace.elf.image import PT_LOAD, Image
from lbtrace.machine import Machine

RELA = Layout("<QQq")
WORD = Layout("<Q")
SHT_RELA = 4
PF_W = 2


class Memory:
    """What the loadable segments of an image hold at link-time addresses."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._segments = [s for s in image.segments if s.type == PT_LOAD]

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes from the file, unrelocated; fewer where the segment ends."""
        for segment in self._segments:
            into = address - segment.address
            if 0 <= into < segment.size:
                start = segment.offset + into
                return self._image.data[start : start + min(size, segment.size - into)]
        return b""

    def word(self, address: int) -> int:
        """Return the 64-bit word at ``address``, relocated; 0 where there is none."""
        if address in self.relocations:
            return self.relocations[address]
        data = self.read(address, 8)
        return int(WORD.unpack(data)[0]) if len(data) == 8 else 0

    def relocated(self, address: int, size: int) -> bytes:
        """``size`` bytes with the loader's relocations applied."""
        data = bytearray(self.read(address, size))
        for place, value in self.relocations.items():
            if 0 <= place - address <= len(data) - 8:
                WORD.pack_into(data, place - address, value)
        return bytes(data)

    def pointers_to(self, address: int) -> Iterator[int]:
        """Yield where words in writable segments point to ``address``."""
        yield from (place for place, value in self.relocations.items() if value == address)
        wanted = WORD.pack(address)
        for segment in self._segments:
            if not segment.flags & PF_W:
                continue
            end = segment.offset + segment.size
            at = self._image.data.find(wanted, segment.offset, end)
            while at >= 0:
                place = at - segment.offset + segment.address
                if place % 8 == 0 and place not in self.relocations:
                    yield place
                at = self._image.data.find(wanted, at + 1, end)

    @cached_property
    def relocations(self) -> dict[int, int]:
        """Addresses and the link-time values that relative relocations give them."""
        relative = Machine(self._image.machine).linking.RELATIVE
        found: dict[int, int] = {}
        for section in self._image.sections:
            # The loader ignores tables of sections that are not loaded.
            if section.type == SHT_RELA and section.address:
                data = self._image.content(section)
                rows = RELA.iter_unpack(data[: len(data) // RELA.size * RELA.size])
                found.update((at, addend) for at, info, addend in rows if info == relative)
        return found
