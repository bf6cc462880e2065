"""An ELF file as the loader sees it: segments, sections, notes, code.

Layouts are those of the System V ABI (gabi, chapters 4 and 5) for 64-bit
little-endian files. Headers are read with `struct`, so that opening a file
costs no import of pyelftools.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from functools import cached_property
from struct import Struct as Layout
from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.elf.lookup import find
from lbtrace.errors import BinaryError

Machine: TypeAlias = Literal["x86_64", "aarch64"]

MACHINES: dict[int, Machine] = {62: "x86_64", 183: "aarch64"}
"""``e_machine`` of the architectures lbtrace knows (EM_X86_64, EM_AARCH64)."""

EHDR = Layout("<16xHHIQQQIHHHHHH")
PHDR = Layout("<IIQQQQQQ")
SHDR = Layout("<IIQQQQIIQQ")
NHDR = Layout("<III")
DYN = Layout("<QQ")

ET_EXEC, ET_DYN = 2, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE = 1, 2, 4
PF_X = 1
SHT_NOBITS = 8
NT_GNU_BUILD_ID = 3
DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000


class Segment(Struct, frozen=True):
    """A program header: ``size`` bytes at ``offset`` are mapped at ``address``."""

    type: int
    flags: int
    offset: int
    address: int
    size: int


class Section(Struct, frozen=True):
    """A section header. ``size`` counts bytes in memory, also where the file has none."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


class Image:
    """An executable or shared library, mapped read-only."""

    def __init__(self, path: str, data: mmap.mmap, *, any_machine: bool = False) -> None:
        """Raises `BinaryError` if ``data`` is no ELF file that can be traced."""
        self.path = path
        self.data = data
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
            Segment(type, flags, offset, address, size)
            for type, flags, offset, address, _, size, _, _ in self._headers(
                PHDR, phoff, phnum, phentsize
            )
        )
        self._section_headers = (shoff, shnum, shentsize)
        for segment in self.segments:
            if segment.type == PT_LOAD and segment.offset + segment.size > len(data):
                raise _truncated(path)
        if not self.executable_segments:
            raise BinaryError(
                f"{path}: holds no executable code",
                "name the program itself, not a file with its debug information or resources",
            )
        self.sections = self._read_sections()

    @classmethod
    def open(cls, path: str, *, any_machine: bool = False) -> Image:
        """The image of the file ``path``, which may be a bare name (see `lbtrace.elf.lookup`).

        With ``any_machine`` a file for another architecture is accepted.
        Raises `BinaryError` if there is no such file or it cannot be traced.
        """
        found = find(path)
        try:
            with open(found, "rb", opener=_without_waiting) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise BinaryError(f"{found}: not a regular file", "name a program or library")
                if status.st_size == 0:
                    raise BinaryError(f"{found}: the file is empty", "name a program or library")
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except IsADirectoryError:
            raise BinaryError(f"{found}: is a directory", "name a file inside it") from None
        except OSError as error:
            raise BinaryError(
                f"{found}: {error.strerror}", "check the path and its permissions"
            ) from None
        return cls(found, data, any_machine=any_machine)

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

    def offset(self, address: int) -> int:
        """The position in the file of the code at virtual ``address``.

        -1 if no executable segment holds it.
        """
        for segment in self.executable_segments:
            if segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        return -1

    def code(self, address: int, size: int) -> bytes:
        """At most ``size`` bytes of code at virtual ``address``; fewer where the segment ends."""
        for segment in self.executable_segments:
            into = address - segment.address
            if 0 <= into < segment.size:
                start = segment.offset + into
                return self.data[start : start + min(size, segment.size - into)]
        return b""

    def section(self, name: str) -> Section | None:
        """The first section called ``name``."""
        return next((s for s in self.sections if s.name == name), None)

    def content(self, section: Section) -> bytes:
        """The bytes of a section. Raises `BinaryError` if the file ends before it does."""
        if section.type == SHT_NOBITS:
            return b""
        if section.offset + section.size > len(self.data):
            raise _truncated(self.path)
        return self.data[section.offset : section.offset + section.size]

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
        rows = list(self._headers(SHDR, offset, count, entry_size))
        names = b""
        if names_index < len(rows):
            start, size = rows[names_index][4:6]
            names = self.data[start : start + size]
        return tuple(
            Section(string(names, name), type, flags, address, position, size, link, each)
            for name, type, flags, address, position, size, link, _, _, each in rows
        )

    def _notes(self) -> Iterator[tuple[int, bytes, bytes]]:
        for segment in self.segments:
            if segment.type != PT_NOTE:
                continue
            notes = self.data[segment.offset : segment.offset + segment.size]
            position = 0
            while position + NHDR.size <= len(notes):
                name_size, size, type = NHDR.unpack_from(notes, position)
                name = position + NHDR.size
                start = name + -(-name_size // 4) * 4
                yield type, notes[name : name + name_size].rstrip(b"\0"), notes[start:][:size]
                position = start + -(-size // 4) * 4


def _without_waiting(path: str, flags: int) -> int:
    """Opens a named pipe at once, to find out that it is none of our business."""
    return os.open(path, flags | os.O_NONBLOCK)


def string(table: bytes, offset: int) -> str:
    """The NUL-terminated string at ``offset`` of a string table, ``""`` outside it."""
    end = table.find(b"\0", offset)
    return table[offset:end].decode("utf-8", "backslashreplace") if end >= 0 else ""


def _truncated(path: str) -> BinaryError:
    return BinaryError(f"{path}: truncated ELF file", "copy or build it again: its end is missing")


def _check_identity(path: str, data: mmap.mmap) -> None:
    start = data[:20]
    if start.startswith(b"#!"):
        interpreter = data[2:128].splitlines()[0].decode("utf-8", "replace").strip()
        program = interpreter.split(" ")[0] or "its interpreter"
        raise BinaryError(
            f"{path}: is a script run by {interpreter}, not an ELF file",
            f"trace its interpreter instead: --binary {program}",
        )
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


def _check_machine(path: str, code: int, any_machine: bool) -> Machine:
    here = os.uname().machine
    machine = MACHINES.get(code)
    if machine is None or (machine != here and not any_machine):
        built = machine or f"an architecture lbtrace does not know (ELF machine {code})"
        raise BinaryError(
            f"{path}: is built for {built}, this machine is {here}",
            "use the file that runs on this machine",
        )
    return machine
