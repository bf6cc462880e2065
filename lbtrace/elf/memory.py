"""The words of a program's data as they are in memory, before it runs.

In position-independent files pointers are zero until the loader fills them
in; the relocation tables say what it will write (gabi, chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import compress
from struct import Struct as Layout

from lbtrace.elf.image import PT_LOAD, Image
from lbtrace.elf.span import Span
from lbtrace.machine import Machine

RELA = Layout("<QQq")
WORD = Layout("<Q")
SHT_RELA = 4
PF_W = 2

FEW = 8
"""Words for which relocations are searched by their places; for more all are read, which takes as
long as some 30 searches."""


class Memory:
    """What the loadable segments of an image hold at link-time addresses."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._segments = [s for s in image.segments if s.type == PT_LOAD]
        self._searched = 0

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
        if (given := self._given(address)) is not None:
            return given
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

    def _given(self, place: int) -> int | None:
        """What a relative relocation makes of the word at ``place``; None without."""
        if place >> 64:  # in a damaged file
            return None
        if self._searched == FEW:
            return self.relocations.get(place)
        self._searched += 1
        wanted = WORD.pack(place)
        for table in reversed(self._tables):  # the last one holds
            end = table.start + table.size
            while (at := table.data.rfind(wanted, table.start, end)) >= 0:
                if not (at - table.start) % RELA.size:
                    _, info, addend = RELA.unpack_from(table.data, at)
                    if info == self._relative:
                        return int(addend)
                end = at + WORD.size - 1
        return None

    @cached_property
    def _relative(self) -> int:
        return Machine(self._image.machine).linking.RELATIVE

    @cached_property
    def _tables(self) -> list[Span]:
        """The tables of relocations. The loader ignores those that are not loaded."""
        sections = [s for s in self._image.sections if s.type == SHT_RELA and s.address]
        found = map(self._image.span, sections)
        return [table._replace(size=table.size // RELA.size * RELA.size) for table in found]

    @cached_property
    def relocations(self) -> dict[int, int]:
        """Addresses and the link-time values that relative relocations give them."""
        found: dict[int, int] = {}
        for table in self._tables:
            words = memoryview(table.bytes).cast("Q")
            relative = map(self._relative.__eq__, words[1::3])
            pairs = zip(words[::3], words.cast("B").cast("q")[2::3], strict=True)
            found.update(compress(pairs, relative))
        return found
