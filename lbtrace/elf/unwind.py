"""Where exceptions continue: the landing pads of functions.

Layouts: LSB core specification, "Exception Frames" (``.eh_frame``,
``.eh_frame_hdr``, pointer encodings); the language-specific data area is that
of the Itanium C++ ABI's exception handling tables, which gcc, clang and rustc
write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from struct import error as unpack_error
from struct import unpack_from
from typing import NamedTuple

from lbtrace.elf.image import PT_LOAD, Image

OMIT = 0xFF
PC_RELATIVE = 0x10
USUAL_HEADER = b"\x01\x1b\x03\x3b"
"""Version 1; a relative pointer; a count; a table of offsets from itself, in order."""

FORMATS = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}


class _Augmentation(NamedTuple):
    """How the frame descriptions of a CIE are encoded; `OMIT` where there is no such pointer."""

    addresses: int = 0
    handlers: int = OMIT


class Unwind:
    """The exception tables of an image. Tables that are damaged or of an unusual
    encoding are taken for missing."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def landing_pads(self, address: int) -> list[int]:
        """Where the code of the function at ``address`` goes on after an exception."""
        index = bisect_right(self._table, (address, 1 << 64)) - 1
        if index < 0 or self._table[index][0] != address:
            return []
        try:
            handlers = self._handlers(self._table[index][1])
            return self._pads(handlers, address) if handlers else []
        except (unpack_error, IndexError, KeyError):
            return []

    @cached_property
    def _table(self) -> list[tuple[int, int]]:
        """The addresses of functions, in order, and of their frame descriptions."""
        section = self._image.section(".eh_frame_hdr")
        if section is None:  # as in static programs
            return sorted(self._descriptions())
        data = self._image.content(section)
        if data[:4] != USUAL_HEADER or len(data) < 12:
            return []
        count = min(unpack_from("<I", data, 8)[0], (len(data) - 12) // 8)
        words = unpack_from(f"<{2 * count}i", data, 12)
        base = section.address
        return [(base + a, base + b) for a, b in zip(words[::2], words[1::2], strict=True)]

    def _descriptions(self) -> Iterator[tuple[int, int]]:
        """The same as the table of the header, from the descriptions themselves."""
        section = self._image.section(".eh_frame")
        if section is None:
            return
        at, end = section.address, section.address + section.size
        encodings: dict[int, int] = {}
        try:
            while at < end:
                entry = _Reader(self._image, at)
                length = entry.number("<I")
                if length in (0, 0xFFFFFFFF):
                    return
                behind = entry.address + length
                here = entry.address
                if back := entry.number("<I"):
                    if here - back not in encodings:
                        encodings[here - back] = self._augmentation(here - back).addresses
                    yield entry.pointer(encodings[here - back]), at
                at = behind
        except (unpack_error, IndexError, KeyError):
            return

    def _handlers(self, description: int) -> int:
        """The address of a function's language-specific data, 0 where it has none."""
        entry = _Reader(self._image, description)
        if entry.number("<I") in (0, 0xFFFFFFFF):
            return 0
        at = entry.address
        augmentation = self._augmentation(at - entry.number("<I"))
        if augmentation.handlers == OMIT:
            return 0
        entry.pointer(augmentation.addresses)
        entry.pointer(augmentation.addresses & 0x0F)
        entry.unsigned()
        return entry.pointer(augmentation.handlers)

    def _augmentation(self, address: int) -> _Augmentation:
        entry = _Reader(self._image, address)
        entry.number("<I")
        entry.number("<I")
        version = entry.number("<B")
        letters = entry.string()
        entry.unsigned()
        entry.unsigned()
        if version == 1:
            entry.number("<B")
        else:
            entry.unsigned()
        found = _Augmentation()
        if not letters.startswith(b"z"):
            return found
        entry.unsigned()
        for letter in letters[1:]:
            if letter == ord("R"):
                found = found._replace(addresses=entry.number("<B"))
            elif letter == ord("L"):
                found = found._replace(handlers=entry.number("<B"))
            elif letter == ord("P"):
                entry.pointer(entry.number("<B") & 0x0F)
        return found

    def _pads(self, handlers: int, function: int) -> list[int]:
        data = _Reader(self._image, handlers)
        encoding = data.number("<B")
        start = function if encoding == OMIT else data.pointer(encoding)
        if data.number("<B") != OMIT:
            data.unsigned()
        encoding = data.number("<B")
        size = data.unsigned()
        end = data.address + size
        pads = set()
        while data.address < end:
            data.pointer(encoding)
            data.pointer(encoding)
            pad = data.pointer(encoding)
            data.unsigned()
            if pad:
                pads.add(start + pad)
        return sorted(pads)


class _Reader:
    """Reads numbers one behind the other, by virtual address."""

    def __init__(self, image: Image, address: int) -> None:
        for segment in image.segments:
            if segment.type == PT_LOAD and 0 <= address - segment.address < segment.size:
                self._data = image.data
                self._at = address - segment.address + segment.offset
                self._base = segment.address - segment.offset
                return
        raise IndexError(address)

    @property
    def address(self) -> int:
        return self._at + self._base

    def number(self, layout: str) -> int:
        number: int
        (number,) = unpack_from(layout, self._data, self._at)
        self._at += {"B": 1, "H": 2, "h": 2, "I": 4, "i": 4, "Q": 8, "q": 8}[layout[1]]
        return number

    def unsigned(self) -> int:
        """A ULEB128 number; a signed one is as long."""
        number = shift = 0
        while True:
            byte = self.number("<B")
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def string(self) -> bytes:
        end = self._data.find(b"\0", self._at)
        text = self._data[self._at : end]
        self._at = end + 1
        return text

    def pointer(self, encoding: int) -> int:
        at = self.address
        number = self.unsigned() if encoding & 0x0F == 1 else self.number(FORMATS[encoding & 0x0F])
        return number + at if number and encoding & 0x70 == PC_RELATIVE else number
