"""Reads where exceptions continue: the landing pads of functions.

Layouts: LSB core specification, "Exception Frames" (``.eh_frame``,
``.eh_frame_hdr``, pointer encodings); the language-specific data area is that
of the Itanium C++ ABI's exception handling tables, which gcc, clang and rustc
write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from mmap import mmap
from struct import Struct, unpack_from
from struct import error as unpack_error
from typing import NamedTuple

from lbtrace.elf.image import PT_LOAD, Image

OMIT = 0xFF
PC_RELATIVE = 0x10
FRAMES, CALL_SITES = 250_000, 500_000
"""Frame descriptions that are read where there is no table of them, and records of calls that
may throw: about a second of work."""

LETTERS = 16
"""Bytes of an augmentation string."""

NUMBER = 10
"""Bytes of a number of 64 bits."""

USUAL_HEADER = b"\x01\x1b\x03\x3b"
"""Version 1; a relative pointer; a count; a table of offsets from itself, in order."""

USUAL_ENTRY = Struct("<IIii")
"""A length, the distance of the CIE, where the code begins, and its size."""

FORMATS = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
LAYOUTS = {layout: Struct(layout) for layout in ("<B", *FORMATS.values())}


class _Augmentation(NamedTuple):
    """How the frame descriptions of a CIE are encoded, `OMIT` where there is no such pointer; and
    whether their frames are those of signals."""

    addresses: int = 0
    handlers: int = OMIT
    signal: bool = False


class Unwind:
    """The exception tables of an image. Tables that are damaged or of an unusual
    encoding count as missing."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._left = CALL_SITES
        self._landing_pads: dict[int, list[int]] = {}
        self._encodings: dict[int, _Augmentation] = {}

    @cached_property
    def starts(self) -> list[int]:
        """Where the code begins that the tables describe, in order: functions, with symbols
        or without, and parts that were split off."""
        base, functions, _ = self._table
        return [base + function for function in functions]

    def following(self, address: int) -> int:
        """Return where the first code after ``address`` begins that the tables describe, or 2**64
        if there is none."""
        base, functions, _ = self._table
        index = bisect_right(functions, address - base)
        return base + functions[index] if index < len(functions) else 1 << 64

    def landing_pads(self, address: int) -> list[int]:
        """Return where the function at ``address`` continues after an exception."""
        found = self._landing_pads.get(address)
        if found is None:
            found = self._landing_pads[address] = self._read_landing_pads(address)
        return found

    def _read_landing_pads(self, address: int) -> list[int]:
        base, functions, descriptions = self._table
        index = bisect_right(functions, address - base) - 1
        if index < 0 or base + functions[index] != address:
            return []
        try:
            handlers = self._handlers(base + descriptions[index])
            return self._pads(handlers, address) if handlers else []
        except (unpack_error, IndexError, KeyError):
            return []

    def range_of(self, address: int) -> range | None:
        """Return the code around ``address`` that one frame description is for; None without."""
        base, functions, descriptions = self._table
        index = bisect_right(functions, address - base) - 1
        if index < 0:
            return None
        try:
            found = self._extent(base + descriptions[index])
        except (unpack_error, IndexError, KeyError):
            return None
        return found if address in found else None

    def description_of(self, address: int) -> int | None:
        """The address of the frame description for the code around ``address``; None without."""
        if self.range_of(address) is None:
            return None
        base, functions, descriptions = self._table
        return base + descriptions[bisect_right(functions, address - base) - 1]

    def is_of_signal(self, address: int) -> bool:
        """Return whether the frame of the code around ``address`` is one of a signal."""
        description = self.description_of(address)
        if description is None:
            return False
        entry = self._reader(description)
        entry.number("<I")
        at = entry.address
        return self._augmentation(at - entry.number("<I")).signal

    def _extent(self, description: int) -> range:
        """The code that a frame description is for."""
        place = self._place(description)
        length, back, distance, size = USUAL_ENTRY.unpack_from(self._image.data, place)
        usual = self._augmentation(description + 4 - back).addresses == PC_RELATIVE | 0x0B
        if usual and distance and length not in (0, 0xFFFFFFFF):
            start = description + 8 + distance
            return range(start, start + size)
        entry = self._reader(description)
        if entry.number("<I") in (0, 0xFFFFFFFF):
            return range(0)
        at = entry.address
        encoding = self._augmentation(at - entry.number("<I")).addresses
        start = entry.pointer(encoding)
        return range(start, start + entry.pointer(encoding & 0x0F))

    @cached_property
    def _table(self) -> tuple[int, Sequence[int], Sequence[int]]:
        """An address, and from there the addresses of functions, in order, and of their
        frame descriptions."""
        section = self._image.section(".eh_frame_hdr")
        if section is None:  # as in static programs
            found = sorted(islice(self._descriptions(), FRAMES))
            return 0, [function for function, _ in found], [frame for _, frame in found]
        data = self._image.content(section)
        if data[:4] != USUAL_HEADER or len(data) < 12:
            return 0, (), ()
        count = min(unpack_from("<I", data, 8)[0], (len(data) - 12) // 8)
        words = memoryview(data)[12 : 12 + 8 * count].cast("i")
        return section.address, words[::2], words[1::2]

    def _descriptions(self) -> Iterator[tuple[int, int]]:
        """The same as the table of the header, from the descriptions themselves."""
        section = self._image.section(".eh_frame")
        if section is None:
            return
        at, end = section.address, section.address + section.size
        encodings: dict[int, int] = {}
        try:
            while at < end:
                entry = self._reader(at)
                length = entry.number("<I")
                if length in (0, 0xFFFFFFFF):
                    return
                following = entry.address + length
                here = entry.address
                if back := entry.number("<I"):
                    if here - back not in encodings:
                        encodings[here - back] = self._augmentation(here - back).addresses
                    yield entry.pointer(encodings[here - back]), at
                at = following
        except (unpack_error, IndexError, KeyError):
            return

    def _reader(self, address: int) -> _Reader:
        at = self._place(address)
        return _Reader(self._image.data, at, address - at)

    def _place(self, address: int) -> int:
        """Where in the file is what is at an address."""
        for start, end, base in self._loaded:
            if start <= address < end:
                return address - base
        raise IndexError(address)

    @cached_property
    def _loaded(self) -> list[tuple[int, int, int]]:
        """Where segments begin and end, and how far their addresses are from their places
        in the file."""
        return [
            (s.address, s.address + s.size, s.address - s.offset)
            for s in self._image.segments
            if s.type == PT_LOAD
        ]

    def _handlers(self, description: int) -> int:
        """The address of a function's language-specific data, 0 where it has none."""
        length, back, *_ = USUAL_ENTRY.unpack_from(self._image.data, self._place(description))
        if length in (0, 0xFFFFFFFF):
            return 0
        augmentation = self._augmentation(description + 4 - back)
        if augmentation.handlers == OMIT:
            return 0
        entry = self._reader(description)
        entry.number("<I")
        entry.number("<I")
        entry.pointer(augmentation.addresses)
        entry.pointer(augmentation.addresses & 0x0F)
        entry.unsigned()
        return entry.pointer(augmentation.handlers)

    def _augmentation(self, address: int) -> _Augmentation:
        """What the CIE at ``address`` says; many descriptions share one."""
        found = self._encodings.get(address)
        if found is None:
            found = self._encodings[address] = self._read_augmentation(address)
        return found

    def _read_augmentation(self, address: int) -> _Augmentation:
        entry = self._reader(address)
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
            elif letter == ord("S"):
                found = found._replace(signal=True)
            elif letter == ord("P"):
                entry.pointer(entry.number("<B") & 0x0F)
        return found

    def _pads(self, handlers: int, function: int) -> list[int]:
        data = self._reader(handlers)
        encoding = data.number("<B")
        start = function if encoding == OMIT else data.pointer(encoding)
        if data.number("<B") != OMIT:
            data.unsigned()
        encoding = data.number("<B")
        size = data.unsigned()
        end = data.address + size
        pads = set()
        while data.address < end and self._left:
            self._left -= 1
            data.pointer(encoding)
            data.pointer(encoding)
            pad = data.pointer(encoding)
            data.unsigned()
            if pad:
                pads.add(start + pad)
        return sorted(pads)


class _Reader:
    """Reads numbers one after the other, by virtual address."""

    def __init__(self, data: mmap, at: int, base: int) -> None:
        self._data = data
        self._at = at
        self._base = base

    @property
    def address(self) -> int:
        return self._at + self._base

    def number(self, layout: str) -> int:
        struct = LAYOUTS[layout]
        number: int
        (number,) = struct.unpack_from(self._data, self._at)
        self._at += struct.size
        return number

    def unsigned(self) -> int:
        """Return a ULEB128 number; a signed one is as long."""
        number = 0
        for position in range(NUMBER):
            byte = self.number("<B")
            number |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                return number
        raise IndexError("a number without end")

    def string(self) -> bytes:
        end = self._data.find(b"\0", self._at, self._at + LETTERS)
        if end < 0:
            raise IndexError("a string without end")
        text = self._data[self._at : end]
        self._at = end + 1
        return text

    def pointer(self, encoding: int) -> int:
        at = self.address
        if encoding & 0xF0 not in (0, PC_RELATIVE):
            raise KeyError(encoding)
        number = self.unsigned() if encoding & 0x0F == 1 else self.number(FORMATS[encoding & 0x0F])
        return number + at if number and encoding & 0x70 == PC_RELATIVE else number
