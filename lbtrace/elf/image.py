"""An ELF file as the loader sees it: segments, sections, notes, code.

Layouts are those of the System V ABI (gabi, chapters 4 and 5) for 64-bit
little-endian files. Headers are read with `struct`, so that opening a file
costs no import of pyelftools.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from struct import Struct as Layout
from typing import TypeVar, cast

from msgspec import Struct

from lbtrace.elf.span import Span
from lbtrace.elf.strings import StringTable
from lbtrace.errors import BinaryError
from lbtrace.files.regular import Mapped
from lbtrace.files.search_path import find
from lbtrace.machine import MACHINES
from lbtrace.system.file import File
from lbtrace.system.lookups import note

EHDR = Layout("<16xHHIQQQIHHHHHH")
PHDR = Layout("<IIQQQQQQ")
SHDR = Layout("<IIQQQQIIQQ")
NHDR = Layout("<III")
DYN = Layout("<QQ")

ET_EXEC, ET_DYN = 2, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS = 1, 2, 4, 7
PF_X = 1
SHT_SYMTAB, SHT_NOBITS = 2, 8
NT_GNU_BUILD_ID = 3
DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000

SEGMENTS = 65536 // PHDR.size
"""Program headers that the kernel takes (load_elf_phdrs in fs/binfmt_elf.c)."""

SECTIONS = 1 << 17
"""Sections that are looked at; linkers make some dozens."""

OVERLAP, LEAST = 2, 1 << 20
"""What all sections, or all loaded segments, may hold together: so many times the file, and
at least so many bytes. What goes beyond that are parts that overlap, made to cost time."""

NOTES = 1 << 20
"""Bytes of notes that are looked at."""

NAMES = 16 << 20
"""Bytes of the names of sections."""


class Segment(Struct, frozen=True):
    """A program header: ``size`` bytes at ``offset`` are mapped at ``address``, where they take
    ``memory``, with what the file does not hold."""

    type: int
    flags: int
    offset: int
    address: int
    size: int
    memory: int
    alignment: int = 1


class Section(Struct, frozen=True):
    """A section header. ``size`` counts bytes in memory, also where the file has none; it
    is 0 where sections overlap (`OVERLAP`)."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


Made = TypeVar("Made")


class Image:
    """An executable or shared library, open and mapped read-only."""

    def __init__(self, file: File, *, any_machine: bool = False) -> None:
        """Raises `BinaryError` if ``file`` is no ELF file that can be traced."""
        self.file = file
        path = self.path = file.path
        data = self.data = _content(file)
        self._made: dict[Callable[[Image], object], object] = {}
        _check_identity(path, data)
        (
            kind,
            machine,
            _version,
            self.entry,
            phoff,
            shoff,
            _flags,
            _ehsize,
            phentsize,
            phnum,
            shentsize,
            shnum,
            self._shstrndx,
        ) = EHDR.unpack_from(data)
        self.machine = _check_machine(path, machine, any_machine)
        self._kind = kind
        if kind not in (ET_EXEC, ET_DYN):
            raise BinaryError(
                f"{path}: neither an executable nor a shared library",
                "link it first: object files and core dumps do not run",
            )
        self.segments = tuple(
            Segment(type, flags, offset, address, size, memory, alignment)
            for type, flags, offset, address, _, size, memory, alignment in self._headers(
                PHDR, phoff, phnum, phentsize
            )
        )
        self._section_headers = (shoff, shnum, shentsize)
        loaded = [s for s in self.segments if s.type == PT_LOAD]
        if any(s.offset + s.size > len(data) for s in loaded):
            raise _truncated(path)
        if sum(s.size for s in loaded) > OVERLAP * len(data) + LEAST or phnum > SEGMENTS:
            raise BinaryError(
                f"{path}: its segments are more than the file holds", "rebuild or reinstall it"
            )
        if not self.executable_segments:
            raise BinaryError(
                f"{path}: holds no executable code",
                "name the program itself, not a file with its debug information or resources",
            )
        self.sections = self._read_sections()

    @classmethod
    def open(cls, path: str, *, any_machine: bool = False) -> Image:
        """Return the image of the file ``path``, which may be a bare name (see
        `lbtrace.files.search_path`).

        With ``any_machine`` a file for another architecture is accepted.
        Raises `BinaryError` if there is no such file or it cannot be traced.
        """
        return cls(File(find(path)), any_machine=any_machine)

    def once(self, make: Callable[[Image], Made]) -> Made:
        """Return what ``make`` makes of this image: the same each time, as tables are slow to
        read."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    @cached_property
    def executable_segments(self) -> tuple[Segment, ...]:
        """The segments that are mapped executable, from the file."""
        return tuple(s for s in self.segments if s.type == PT_LOAD and s.flags & PF_X and s.size)

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hexadecimal, or ``""``."""
        for type, name, descriptor in self._notes():
            if type == NT_GNU_BUILD_ID and name == b"GNU":
                return descriptor.hex()
        return ""

    @cached_property
    def is_program(self) -> bool:
        """Whether this is surely no library: two such are never in one process.

        False also for position-independent programs whose linker does not say so
        (binutils before 2.26).
        """
        flags = (
            value
            for segment in self.segments
            if segment.type == PT_DYNAMIC
            for tag, value in DYN.iter_unpack(self._dynamic(segment))
            if tag == DT_FLAGS_1
        )
        return self._kind == ET_EXEC or any(value & DF_1_PIE for value in flags)

    def _dynamic(self, segment: Segment) -> bytes:
        data = self.data[segment.offset : segment.offset + segment.size]
        return data[: len(data) // DYN.size * DYN.size]

    @cached_property
    def has_debug_info(self) -> bool:
        """Whether the file itself holds DWARF, compressed or not."""
        return any(s.name in (".debug_info", ".zdebug_info") and s.size for s in self.sections)

    @cached_property
    def has_symbol_table(self) -> bool:
        """Whether the file itself has the full symbol table, as it has until it is stripped."""
        return any(s.type == SHT_SYMTAB and s.size for s in self.sections)

    def offset(self, address: int) -> int:
        """Return the position in the file of the code at virtual ``address``.

        -1 if no executable segment holds it.
        """
        segment = self._executable(address)
        return address - segment.address + segment.offset if segment else -1

    def address(self, offset: int) -> int:
        """Return the virtual address of the code at a position in the file, or -1."""
        code = (each for each in self.segments if each.type == PT_LOAD and each.flags & PF_X)
        found = (s.address + offset - s.offset for s in code if 0 <= offset - s.offset < s.size)
        return next(found, -1)

    def room(self, address: int) -> int:
        """Return how many bytes of code there are from virtual ``address`` on, 0 where no
        executable segment holds it."""
        segment = self._executable(address)
        return segment.address + segment.size - address if segment else 0

    def code(self, address: int, size: int) -> bytes:
        """Return at most ``size`` bytes of code at virtual ``address``; fewer where the segment
        ends."""
        return bytes(self.view(address, size))

    def _executable(self, address: int) -> Segment | None:
        """The executable segment that holds virtual ``address``."""
        for segment in self.executable_segments:
            if segment.address <= address < segment.address + segment.size:
                return segment
        return None

    def section(self, name: str) -> Section | None:
        """Return the first section called ``name``."""
        return self._named.get(name)

    @cached_property
    def _named(self) -> dict[str, Section]:
        """The first section of each name."""
        return {section.name: section for section in reversed(self.sections)}

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section. Raises `BinaryError` if the file ends before it does."""
        if section.type == SHT_NOBITS:
            return b""
        if section.offset + section.size > len(self.data):
            raise _truncated(self.path)
        return self.data[section.offset : section.offset + section.size]

    def span(self, section: Section) -> Span:
        """Return the same, not copied."""
        if section.type == SHT_NOBITS:
            return Span()
        if section.offset + section.size > len(self.data):
            raise _truncated(self.path)
        return Span(self.data, section.offset, section.size)

    def view(self, address: int, size: int) -> memoryview:
        """Return the same as `code`, not copied."""
        segment = self._executable(address)
        if segment is None:
            return memoryview(b"")
        start = address - segment.address + segment.offset
        return memoryview(self.data)[start : min(start + size, segment.offset + segment.size)]

    def _headers(
        self, layout: Layout, offset: int, count: int, entry_size: int
    ) -> Iterator[tuple[int, ...]]:
        if not count:
            return iter(())
        if entry_size != layout.size:
            raise BinaryError(
                f"{self.path}: damaged ELF header (entry size {entry_size})",
                "rebuild or reinstall the file",
            )
        end = offset + count * entry_size
        if end > len(self.data):
            raise _truncated(self.path)
        return layout.iter_unpack(self.data[offset:end])

    def _read_sections(self) -> tuple[Section, ...]:
        offset, count, entry_size = self._section_headers
        if not offset:
            return ()
        names_index = self._shstrndx
        if count == 0 or names_index == 0xFFFF:
            # gabi: more than 0xff00 sections keep their numbers in the first header.
            first = next(self._headers(SHDR, offset, 1, entry_size))
            count = count or first[5]
            names_index = first[6] if names_index == 0xFFFF else names_index
        count = min(count, SECTIONS)
        rows = list(self._headers(SHDR, offset, count, entry_size))
        names = b""
        if names_index < len(rows):
            start, size = rows[names_index][4:6]
            names = self.data[start : start + min(size, NAMES)]
        table, left = StringTable(names), OVERLAP * len(self.data) + LEAST
        sections: list[Section] = []
        for name, type, flags, address, position, size, link, *_ in rows:
            if type != SHT_NOBITS and position + size <= len(self.data):
                left -= size
            held = size if left >= 0 else 0
            sections.append(Section(table.name(name), type, flags, address, position, held, link))
        return tuple(sections)

    def _notes(self) -> Iterator[tuple[int, bytes, bytes]]:
        left = NOTES
        for segment in self.segments:
            if segment.type != PT_NOTE:
                continue
            notes = self.data[segment.offset : segment.offset + min(segment.size, left)]
            left -= len(notes)
            yield from read_notes(notes)


def read_notes(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the type, name and description of each note, up to one of which ``data`` ends."""
    position = 0
    while position + NHDR.size <= len(data):
        name_size, size, type = NHDR.unpack_from(data, position)
        name = position + NHDR.size
        start = name + -(-name_size // 4) * 4
        if start + size > len(data):
            return
        yield type, data[name : name + name_size].rstrip(b"\0"), data[start : start + size]
        position = start + -(-size // 4) * 4


@contextmanager
def whole(images: Iterable[Image]) -> Iterator[None]:
    """Within, it is a `BinaryError` if the file of an image is cut short, and not whatever came
    of reading it: what is gone reads as zeros."""
    try:
        yield
    finally:
        for image in images:
            if os.fstat(image.file.descriptor).st_size < len(image.data):
                raise BinaryError(
                    f"{image.path}: was cut short while it was read",
                    "run lbtrace again when the file is whole",
                ) from None


def _content(file: File) -> mmap.mmap:
    """The bytes of a file, mapped."""
    try:
        return Mapped(file.descriptor)
    except (OSError, ValueError) as error:  # ValueError: it is empty by now
        reason = error.strerror if isinstance(error, OSError) else "it is empty by now"
        raise BinaryError(
            f"{file.path}: cannot be read: {reason}", "check the file, and the memory limits"
        ) from None


def _truncated(path: str) -> BinaryError:
    return BinaryError(f"{path}: truncated ELF file", "copy or build it again: its end is missing")


def is_32_bit(path: str) -> bool:
    """Return whether there is a program or library at ``path`` whose addresses have 32 bits
    (``ELFCLASS32``)."""
    note(path)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(5) == b"\x7fELF\1"
    except OSError:
        return False


def _check_identity(path: str, data: mmap.mmap) -> None:
    start = data[:20]
    if start.startswith(b"#!"):
        from lbtrace.files.scripts import refusal  # imported here because few files are scripts

        raise refusal(path, data[:256])
    if not start.startswith(b"\x7fELF"):
        raise BinaryError(f"{path}: not an ELF file", "name a compiled program or shared library")
    if len(start) < 20:
        raise _truncated(path)
    if start[4] == 1:
        raise BinaryError(f"{path}: is a 32-bit program", "only 64-bit programs can be traced")
    if start[4] != 2 or start[5] not in (1, 2):
        raise BinaryError(f"{path}: damaged ELF header", "rebuild or reinstall the file")
    if start[5] == 2:
        raise BinaryError(f"{path}: is big-endian", "only little-endian programs can be traced")
    if len(data) < EHDR.size:
        raise _truncated(path)


def _check_machine(path: str, code: int, any_machine: bool) -> str:
    here = os.uname().machine
    machine = next((row.name for row in MACHINES if row.number == code), None)
    if machine is None or (machine != here and not any_machine):
        built = machine or f"an architecture lbtrace does not know (ELF machine {code})"
        raise BinaryError(
            f"{path}: is built for {built}, this machine is {here}",
            "use the file that runs on this machine",
        )
    return machine
