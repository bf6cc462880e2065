"""The functions of a Go program, from the table its own runtime unwinds stacks with.

The table (``.gopclntab``) survives stripping. Formats 1.2, 1.16, 1.18 and
1.20 are distinguished by their magic number; from 1.26 on the header no longer says where the code
starts. Sources: Go's ``runtime/symtab.go`` (``pcHeader``, ``moduledata``), ``runtime/runtime2.go``
(``_func``), ``debug/gosym/pclntab.go``.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, starmap
from operator import le
from struct import Struct as Layout
from struct import error as unpack_error
from typing import Literal

from msgspec.structs import replace

from lbtrace.elf.go import build
from lbtrace.elf.go.functions import FunctionNames, GoFunctions
from lbtrace.elf.image import Image, Section
from lbtrace.elf.memory import Memory
from lbtrace.elf.span import Span
from lbtrace.errors import BinaryError

GO12, GO116, GO118, GO120 = 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
HEADER = Layout("<IBBBBQ")
FIXED, FIXED_STARTLINE = Layout("<iiIIIIIIBBBB"), Layout("<iiIIIIIIiBBBB")
"""``_func`` after its entry: nameoff, args, deferreturn, pcsp, pcfile, pcln, npcdata, cuOffset,
(startLine from 1.20 on,) funcID, flag, padding, nfuncdata. Used from format 1.18 on; format 1.2
has no cuOffset, and no flag."""

LOOSE_NAME = re.compile(rb"(?<=\0)[A-Za-z_][\w/.-]*\.(?!(?:go|s)\0)[\w.()*\[\]-]+(?=\0)")

NPCDATA = 6
"""Its place in them."""

OFFSET, NO_OFFSET = Layout("<I"), 0xFFFF_FFFF

INT = Layout("<i")

FLAG_ASM = 4
"""``FuncFlagAsm``: assembly, whose arguments lie on the stack (ABI0)."""

MINPC = {GO12: 10, GO116: 20, GO118: 20, GO120: 20}
"""The word of ``moduledata`` that holds the first function's address; the
second word after it holds the address that entries count from. That is runtime.text, which
comes after the C start-up code of ``.text`` where the system's linker was used."""

OLDEST = {GO12: (1, 15), GO116: (1, 17), GO118: (1, 18), GO120: (1, 20)}
"""The version that is assumed where the file has none, as plugins until 1.20."""

NEWER = ".go.module"
"""A section that files have which are newer than those."""

MERGED = ".data.rel.ro"
"""The section that contains the table in position-independent files."""

CANDIDATES = 64
"""Places in a merged section that are examined as possible tables."""

UNNAMED = frozenset({"", "go.buildid", "go:buildid", "go:textfipsstart", "go:textfipsend"})
"""Entries that are no functions."""


class GoTable:
    """The function table of one image.

    ``functions`` are in the order of their addresses, and cover ``start`` to
    ``end``; a function's size counts its padding. The compiler wraps functions
    that are called by another convention than their own (ABI0, ABIInternal);
    such a wrapper bears the name of what it calls and is left out, but is
    among ``starts`` and ``names``, which belong together. ``assembly`` has the
    addresses of functions written in assembly (known from format 1.18 on). ``wrappers`` are those
    of functions that only call another: of another convention, a method of an embedded struct, an
    instance of a generic method (from 1.18 on). ``version`` is that of the compiler, or the
    format's; (0, 0) if it is unknown. ``moduledata`` is where the runtime's record of all this
    lies, 0 where that was not found. Raises `BinaryError` where the table is damaged.
    """

    def __init__(self, image: Image, section: Section) -> None:
        self._image = image
        try:
            self._read(section)
        except (unpack_error, IndexError, ValueError, OverflowError):
            raise _damaged(image) from None

    def _read(self, section: Section) -> None:
        memory = Memory(self._image)
        span = self._image.span(section)
        data: memoryview | bytes = span.view
        magic, pad1, pad2, _, pointer, count = HEADER.unpack_from(data)
        if magic not in (GO12, GO116, GO118, GO120) or pad1 or pad2 or pointer != 8:
            raise _damaged(self._image)
        if magic in (GO12, GO116) and memory.relocations:
            data = memory.relocated(section.address, section.size)
            span = Span(data, 0, len(data))
        self._magic = magic
        self.version = build.version(self._image)
        if not build.version_text(self._image) and self._image.section(NEWER) is None:
            self.version = OLDEST[magic]
        if magic == GO12:
            self._names, self._records = span, data
            table, entry = 16, "Q"
        else:
            words = Layout("<7Q" if magic == GO116 else "<8Q").unpack_from(data, 8)
            if magic == GO116:
                # Without the start of the text, which 1.18 put third.
                words = (*words[:2], 0, *words[2:])
            names, units, pcln = words[3], words[4], words[7]
            self._names = Span(span.data, span.start + names, _within(names, units, span.size))
            self._records = data[pcln:]
            table, entry = pcln, "Q" if magic == GO116 else "I"
        rows = _rows(data, table, 2 * count + 1, "Q" if entry == "Q" else "I")
        first = rows[0] if rows else 0
        relative = magic in (GO118, GO120)
        minpc = MINPC[magic]
        text = 0
        self.moduledata = 0
        for place in memory.pointers_to(section.address):
            text = memory.word(place + 8 * (minpc + 2)) if relative else 0
            if memory.word(place + 8 * minpc) == text + first:
                self.moduledata = place
                break
        if relative and not self.moduledata:
            raise BinaryError(
                f"{self._image.path}: its Go function table does not say where the code begins",
                "trace a build by an official Go toolchain",
            )
        self.starts = array("Q", [text + at for at in rows[:-1:2]])
        self.start: int = text + first
        self.end: int = text + rows[-1]
        self._positions = array("Q", rows[1::2])
        if self._image.offset(self.start) < 0:
            raise _damaged(self._image)
        self.names = self._read_names()
        self.assembly = self._find_assembly()
        self.functions = self._list()

    def _read_names(self) -> FunctionNames:
        # The entry is an address in formats 1.2 and 1.16, an offset in later ones.
        into, records = 8 if self._magic in (GO12, GO116) else 4, self._records
        offsets = [INT.unpack_from(records, at + into)[0] for at in self._positions]
        return FunctionNames(self._names, array("q", offsets))

    def _list(self) -> GoFunctions:
        ends = self.starts[1:]
        ends.append(self.end)
        left_out = {*self.names.among(UNNAMED), *self._wrapping()}
        rows = zip(self.starts, ends, strict=True)
        kept = (n for n, (at, end) in enumerate(rows) if end > at and n not in left_out)
        shift = self._image.offset(self.start) - self.start
        return GoFunctions(self.names, self.starts, ends, shift, array("L", kept))

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the functions are in the order of their addresses, as they are unless the table
        is damaged."""
        return all(starmap(le, pairwise(self.starts)))

    @cached_property
    def inlined(self) -> tuple[str, ...]:
        """Functions without code of their own: every call of them is inlined.

        The name table holds the names of the inlined as well as of the others.
        In format 1.2 names lie among other things; what looks like one is taken.
        """
        if self._magic == GO12:
            every = [name.decode() for name in LOOSE_NAME.findall(self._names.bytes)]
        else:
            every = self._names.bytes.decode("utf-8", "backslashreplace").split("\0")
        return tuple(sorted(set(every) - set(self.names) - UNNAMED))

    def _find_assembly(self) -> frozenset[int]:
        flags = self._tail(-3) if self._magic in (GO118, GO120) else []
        return frozenset(
            at for at, flag in zip(self.starts, flags, strict=False) if flag & FLAG_ASM
        )

    def argument_bytes(self, address: int) -> int:
        """Return bytes that arguments and results take on the stack; negative where that is
        unknown."""
        record = self._positions[bisect_right(self.starts, address) - 1]
        into = 12 if self._magic in (GO12, GO116) else 8
        data = self._records[record + into : record + into + INT.size]
        return int(INT.unpack(data)[0]) if len(data) == INT.size else -1

    def resumptions(self, address: int) -> list[int]:
        """Return where the runtime resumes a function after a panic was recovered: the call of
        ``runtime.deferreturn``, to which no code may lead (``_func.deferreturn``)."""
        record = self._positions[bisect_right(self.starts, address) - 1]
        into = 16 if self._magic in (GO12, GO116) else 12
        data = self._records[record + into : record + into + OFFSET.size]
        distance = OFFSET.unpack(data)[0] if len(data) == OFFSET.size else 0
        return [address + distance] if 0 < distance < NO_OFFSET else []

    def funcdata(self, address: int, index: int) -> int | None:
        """Return where a table of a function's own is, from the start of all funcdata; None
        where there is none, or the format is older than 1.18."""
        fixed = {GO118: FIXED, GO120: FIXED_STARTLINE}.get(self._magic)
        if fixed is None:
            return None
        record = self._positions[bisect_right(self.starts, address) - 1] + 4
        try:
            fields = fixed.unpack_from(self._records, record)
            if index >= fields[-1]:
                return None
            at = record + fixed.size + 4 * (fields[NPCDATA] + index)
            (offset,) = OFFSET.unpack_from(self._records, at)
        except unpack_error:  # damaged
            return None
        return int(offset) if offset != NO_OFFSET else None

    @cached_property
    def wrappers(self) -> frozenset[int]:
        """See `GoTable`."""
        kinds = self._tail(-4) if self._magic in (GO118, GO120) else []
        last = max(kinds, default=0)  # FuncIDWrapper has always been the last
        return frozenset(at for at, kind in zip(self.starts, kinds, strict=False) if kind == last)

    def _wrapping(self) -> Iterator[int]:
        """Yield the positions of functions that wrap another one of their name."""
        wraps = [at in self.wrappers for at in self.starts]
        if not any(wraps):
            return
        names = [*self.names.raw()]
        own = {name for name, wrapper in zip(names, wraps, strict=True) if not wrapper}
        for number, (name, wrapper) in enumerate(zip(names, wraps, strict=True)):
            if wrapper and name in own:
                yield number

    def _tail(self, back: int) -> list[int]:
        """The byte ``back`` from the end of each function's record."""
        records = self._records
        into = 4 + (FIXED_STARTLINE if self._magic == GO120 else FIXED).size + back
        return [records[at + into] for at in self._positions]


def read(image: Image) -> GoTable | None:
    """Return the table of ``image``; None where it has none. Raises `BinaryError` where it is
    damaged."""
    for name in build.TABLES:
        section = image.section(name)
        if section is not None and section.size:
            return GoTable(image, section)
    if build.is_go(image):
        for section in _merged(image):
            return GoTable(image, section)
    return None


def _merged(image: Image) -> Iterator[Section]:
    """The table where the system's linker has put it among other data.

    It begins with its magic number, and ``moduledata`` points to it.
    """
    memory = Memory(image)
    within = image.section(MERGED)
    if within is None:
        return
    data, tried = image.content(within), 0
    for magic in (GO12, GO116, GO118, GO120):
        for quantum in (1, 4):
            start = HEADER.pack(magic, 0, 0, quantum, 8, 0)[:8]
            at = data.find(start)
            while at >= 0 and tried < CANDIDATES:
                tried += 1
                address = within.address + at
                if any(memory.pointers_to(address)):
                    offset, size = within.offset + at, within.size - at
                    yield replace(within, address=address, offset=offset, size=size, link=0)
                at = data.find(start, at + 1)


def _within(start: int, end: int, size: int) -> int:
    """Return how many bytes of ``size`` lie from ``start`` to ``end``."""
    return max(min(end, size) - start, 0)


def _rows(
    data: memoryview | bytes, start: int, count: int, kind: Literal["I", "Q"]
) -> memoryview[int]:
    """Return ``count`` numbers from ``start`` on. Raises `ValueError` if there are fewer."""
    size = count * (8 if kind == "Q" else 4)
    if start + size > len(data):
        raise ValueError
    return memoryview(data)[start : start + size].cast("B").cast(kind)


def _damaged(image: Image) -> BinaryError:
    return BinaryError(
        f"{image.path}: its Go function table is damaged, or of an unknown format",
        "rebuild or reinstall the file",
    )
