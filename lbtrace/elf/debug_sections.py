"""The sections of a file that hold debug information, each unpacked when it is first used.

Layouts: System V ABI (gabi), chapter 4, with ``Elf64_Chdr`` for compressed
sections; ``.zdebug_`` sections are those of older GNU tools: "ZLIB" and the
size in eight big-endian bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from lbtrace.elf.image import EHDR, LEAST, NAMES, OVERLAP, SECTIONS, SHDR, SHT_NOBITS
from lbtrace.elf.span import Span
from lbtrace.elf.strings import Buffer, StringTable
from lbtrace.files.cache import Cache

SHF_COMPRESSED = 0x800
CHDR_SIZE = 24
COMPRESS_ZLIB, COMPRESS_ZSTD = 1, 2

LARGEST = 4 << 30
"""Bytes of a section that are unpacked, and"""

SMALL, RATIO = 64 << 20, 50
"""… those above the first must not exceed the packed ones by this factor."""

FEED, PIECE = 64 << 10, 256 << 10
"""Bytes that are unpacked, and that come out, at a time."""

WORTHWHILE = 4 << 20
"""Sections of more packed bytes than this, which take 50 ms to unpack, are cached."""

MANY = 10_000
"""At most this many sections of one name are joined."""

LONGEST = 1 << 16
"""Bytes of a string that are read."""


class DwarfError(Exception):
    """Debug information is damaged, or of a kind that is not supported.

    It never leaves `lbtrace.dwarf` and `lbtrace.elf`: the damaged part counts as missing.
    """


class Section:
    """A part of a file, or its unpacked content. Positions count from its start."""

    __slots__ = ("_data", "_start", "size")

    def __init__(self, data: Buffer, start: int = 0, size: int | None = None) -> None:
        self._data = data
        self._start = start
        self.size = len(data) if size is None else size

    def cut(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``, fewer at the end of the section."""
        if not 0 <= start <= self.size:
            raise DwarfError(f"offset {start:#x} is outside of its section")
        return self._data[self._start + start : self._start + min(end, self.size)]

    @property
    def span(self) -> Span:
        """All of it, not copied."""
        return Span(self._data, self._start, max(min(self.size, len(self._data) - self._start), 0))

    def string(self, offset: int) -> bytes:
        """Return the string at ``offset``."""
        if not 0 <= offset < self.size:
            raise DwarfError(f"string at {offset:#x} is outside of its section")
        at = self._start + offset
        limit = self._start + min(self.size, offset + LONGEST)
        end = self._data.find(b"\0", at, limit)
        return self._data[at : limit if end < 0 else end]

    def find(self, raw: bytes, most: int) -> list[int]:
        """Return the offsets at which these bytes are, the first ``most``."""
        found: list[int] = []
        end = self._start + self.size
        at = self._data.find(raw, self._start, end)
        while at >= 0 and len(found) < most:
            found.append(at - self._start)
            at = self._data.find(raw, at + 1, end)
        return found

    def number(self, offset: int, size: int) -> int:
        """Return the little-endian number of ``size`` bytes at ``offset``."""
        raw = self.cut(offset, offset + size)
        if len(raw) < size:
            raise DwarfError(f"number at {offset:#x} is outside of its section")
        return int.from_bytes(raw, "little")

    def part(self, start: int, size: int) -> Section:
        """Return a section of its own: ``size`` bytes from ``start``."""
        if start < 0 or start + size > self.size:
            raise DwarfError("a part reaches out of its section")
        return Section(self._data, self._start + start, size)


EMPTY = Section(b"")


class _Header(NamedTuple):
    compressed: bool
    offset: int
    size: int


class Sections:
    """The sections of one file, by name."""

    def __init__(self, data: Buffer, cache: Cache | None = None) -> None:
        """Sections that take long to unpack are kept in ``cache``.

        Raises `DwarfError` if ``data`` is no ELF file.
        """
        self._data = data
        self.cache = cache
        self._headers = _headers(data)
        self._opened: dict[str, Section] = {}

    @property
    def build_id(self) -> bytes:
        """The GNU build-id, or nothing."""
        note = self.get(".note.gnu.build-id")
        raw = note.cut(0, note.size)
        return raw[16 : 16 + int.from_bytes(raw[4:8], "little")] if raw[12:16] == b"GNU\0" else b""

    def size(self, name: str) -> int:
        """Return the bytes that a section takes in the file."""
        return sum(header.size for header in self._found(name))

    def get(self, name: str) -> Section:
        """Return the content of the section, unpacked; empty where there is none.

        Raises `DwarfError` if it is damaged.
        """
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def _open(self, name: str) -> Section:
        found = self._found(name)
        if len(found) == 1:
            return self._one(name, found[0], self.cache)
        # Type units of object files have sections of their own.
        parts = [self._one(name, header, None) for header in found[:MANY]]
        return Section(b"".join(part.cut(0, part.size) for part in parts)) if parts else EMPTY

    def _one(self, name: str, header: _Header, cache: Cache | None) -> Section:
        old = name not in self._headers
        if not header.compressed and not old:
            return Section(self._data, header.offset, header.size)
        if old and self._data[header.offset : header.offset + 4] != b"ZLIB":
            return Section(self._data, header.offset, header.size)
        kept = None
        if cache is not None and header.size >= WORTHWHILE:
            kept = cache.load(name) or cache.store(name, self._unpacked(header))
        if kept is not None:
            return Section(kept.data, kept.start, len(kept.data) - kept.start)
        return Section(b"".join(self._unpacked(header)))

    def _unpacked(self, header: _Header) -> Iterator[bytes]:
        """The content of a compressed section, standard or of GNU's older form."""
        start, end = header.offset, header.offset + header.size
        if header.compressed:
            kind = int.from_bytes(self._data[start : start + 4], "little")
            size = int.from_bytes(self._data[start + 8 : start + 16], "little")
            start += CHDR_SIZE
        else:
            kind, size = COMPRESS_ZLIB, int.from_bytes(self._data[start + 4 : start + 12], "big")
            start += 12
        packed = max(end - start, 0)
        if size > min(LARGEST, max(SMALL, RATIO * packed)):
            raise DwarfError(f"{packed:,} bytes claim to hold {size:,}")
        if kind == COMPRESS_ZLIB:
            feeds = (self._data[at : min(at + FEED, end)] for at in range(start, end, FEED))
            return _inflated(feeds, size)
        if kind == COMPRESS_ZSTD:
            return iter([_unpacked_zstd(self._data[start:end], size)])
        raise DwarfError(f"packed in a way that is not known ({kind})")

    def _found(self, name: str) -> list[_Header]:
        return self._headers.get(name) or self._headers.get(_packed_name(name)) or []


def _packed_name(name: str) -> str:
    return name.replace(".debug_", ".zdebug_", 1)


def _headers(data: Buffer) -> dict[str, list[_Header]]:
    if len(data) < EHDR.size or data[:6] != b"\x7fELF\x02\x01":
        raise DwarfError("no 64-bit little-endian ELF file")
    header = EHDR.unpack_from(data)
    offset, entry_size, count, names_at = header[5], header[10], header[11], header[12]
    if not offset or entry_size != SHDR.size or offset + SHDR.size > len(data):
        return {}
    # gabi: more than 0xff00 sections keep their numbers in the first header.
    first = SHDR.unpack_from(data, offset)
    count = count or first[5]
    names_at = first[6] if names_at == 0xFFFF else names_at
    count = min(count, (len(data) - offset) // SHDR.size, SECTIONS)
    if names_at >= count:
        return {}
    rows = list(SHDR.iter_unpack(data[offset : offset + count * SHDR.size]))
    start, size = rows[names_at][4:6]
    names = StringTable(data[start : start + min(size, NAMES)])
    found: dict[str, list[_Header]] = {}
    left = OVERLAP * len(data) + LEAST
    for name, type, flags, _, position, size, *_ in rows:
        if type != SHT_NOBITS and position + size <= len(data) and size <= left:
            left -= size
            header = _Header(bool(flags & SHF_COMPRESSED), position, size)
            found.setdefault(names.name(name), []).append(header)
    return found


def _inflated(feeds: Iterable[bytes], size: int) -> Iterator[bytes]:
    """``size`` bytes of content, piece by piece, so that it is never in memory as a whole."""
    engine = zlib.decompressobj()
    left = size
    try:
        # The last, empty feed brings out what the engine holds back.
        for feed in chain(feeds, [b""]):
            rest = feed
            while left:
                piece = engine.decompress(rest, min(left, PIECE))
                left -= len(piece)
                yield piece
                rest = engine.unconsumed_tail
                if not rest and len(piece) < PIECE:
                    break
    except zlib.error as error:
        raise DwarfError(str(error)) from None
    if left:
        raise DwarfError("a packed section ends too soon")


def _unpacked_zstd(raw: bytes, size: int) -> bytes:
    """As Python's own library has zstd only since 3.14: by libzstd, which systems
    whose tools pack with it have."""
    import ctypes  # imported here because it is slow and seldom needed

    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        raise DwarfError("packed with zstd, and there is no libzstd.so.1") from None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    ]
    content = ctypes.create_string_buffer(size or 1)
    # An error is a count beyond any size.
    if library.ZSTD_decompress(content, size, raw, len(raw)) != size:
        raise DwarfError("a packed section is damaged")
    return content.raw[:size]
