"""What an image declares to the dynamic loader: the libraries it needs, the names it imports.

Everything is read by the program headers, as the loader does, so files without section
headers are understood too. Layouts: gabi chapter 5 (dynamic section, relocations, hash
table); GNU_HASH as in glibc's ``elf/dl-lookup.c`` (``do_lookup_x``); tags of ``elf.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from struct import Struct as Layout
from struct import error as LayoutError
from struct import unpack_from

from lbtrace.elf.image import DYN, PT_DYNAMIC, PT_LOAD, Image
from lbtrace.elf.memory import PF_W
from lbtrace.elf.span import Span
from lbtrace.elf.strings import string
from lbtrace.elf.symbol_table import (
    RELOCATED,
    SYMBOL,
    UNDEFINED,
    SymbolSource,
    SymbolTable,
    Wanted,
    next_relocation,
    relocated_symbols,
)
from lbtrace.machine import Machine

RELA = Layout("<QQq")
WORD = Layout("<Q")

PT_INTERP = 3
DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 1, 2, 4, 5, 6, 7, 8
DT_STRSZ, DT_SONAME, DT_RPATH, DT_JMPREL, DT_RUNPATH = 10, 14, 15, 23, 29
DT_GNU_HASH, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFFB
DT_AUDIT, DT_DEPAUDIT, DT_AUXILIARY, DT_FILTER = 0x6FFFFEFC, 0x6FFFFEFB, 0x7FFFFFFD, 0x7FFFFFFF
DT_TEXTREL, DT_FLAGS, DT_RELRSZ, DT_RELR = 22, 30, 35, 36
DF_1_NODEFLIB, DF_TEXTREL = 0x800, 4

SHT_RELA = 4

SYMBOLS = 1 << 22
"""Symbols that are read, at most."""


class Dynamic:
    """The dynamic section of an image, and the tables it leads to.

    Tables that are damaged or missing read as empty.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._tags: dict[int, list[int]] = {}
        for segment in image.segments:
            if segment.type != PT_DYNAMIC:
                continue
            data = image.data[segment.offset : segment.offset + segment.size]
            for tag, value in DYN.iter_unpack(data[: len(data) // DYN.size * DYN.size]):
                if tag == 0:
                    break
                self._tags.setdefault(tag, []).append(value)

    @cached_property
    def interpreter(self) -> str:
        """The loader that the program names, ``""`` for libraries and static programs."""
        for segment in self._image.segments:
            if segment.type == PT_INTERP:
                return string(self._bytes(segment.address, segment.size), 0)
        return ""

    @property
    def soname(self) -> str:
        """The name by which others need this library, or ``""``."""
        return next(iter(self._texts(DT_SONAME)), "")

    @property
    def needed(self) -> tuple[str, ...]:
        """The libraries that are loaded with it: DT_NEEDED, filters and auditors."""
        tags = (DT_NEEDED, DT_FILTER, DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT)
        return tuple(name for tag in tags for name in self._texts(tag))

    @property
    def rpath(self) -> str:
        """DT_RPATH: where libraries of this file and of those it loads are looked for first."""
        return ":".join(self._texts(DT_RPATH))

    @property
    def runpath(self) -> str:
        """DT_RUNPATH: where the libraries that this file itself needs are looked for."""
        return ":".join(self._texts(DT_RUNPATH))

    @property
    def without_defaults(self) -> bool:
        """Whether the loader is not to look in its cache and default directories."""
        return bool(self._first(DT_FLAGS_1) & DF_1_NODEFLIB)

    def tag(self, tag: int) -> int:
        """Return the first value of a tag, 0 where it is missing."""
        return self._first(tag)

    def filled_in(self, array: range) -> Iterator[int]:
        """Return what the loader writes into the words of ``array``, as far as it relocates one
        after the other. Few of many relocations are wanted: they are searched for by their
        places."""
        relative = Machine(self._image.machine).linking.RELATIVE
        for span in self._tables:
            at = span.start
            for place in array[:: WORD.size]:
                at = _find_row(span, place, at)
                if at < 0:
                    break
                _, info, addend = RELA.unpack_from(span.data, at)
                if info == relative:
                    yield addend

    @cached_property
    def imports(self) -> Names:
        """The names that the loader looks up for this file: every undefined symbol, and
        whatever a relocation names (also one that the file defines itself), without versions."""
        return Names(self._symbols, lambda flags: bool(flags & (UNDEFINED | RELOCATED)))

    @cached_property
    def exports(self) -> Names:
        """The names that it offers to others."""
        return Names(self._symbols, lambda flags: not flags & UNDEFINED)

    @cached_property
    def slots(self) -> tuple[tuple[int, str, int], ...]:
        """The words of the GOT that the loader fills with the address of a function or
        variable: where each is, the name, and the address where the file itself defines it,
        or 0. Without a name the address is that of a resolver, which returns what to fill in."""
        linking = Machine(self._image.machine).linking
        kinds, indirect = linking.SLOTS, linking.IRELATIVE
        found = [*self._relocations_of((*kinds, indirect))]
        named = (
            (at, *self._bound(info >> 32))
            for at, info, _ in found
            if info & 0xFFFFFFFF in kinds and 0 < info >> 32 < len(self._symbols)
        )
        chosen = ((at, "", addend) for at, info, addend in found if info & 0xFFFFFFFF == indirect)
        return (*named, *chosen)

    def has_pointer(self, name: str) -> bool:
        """Return whether the loader writes the address of ``name`` into a word through which code
        may call it without a stub: ``-fno-plt``, a pointer to a function."""
        words, slots = Machine(self._image.machine).linking.POINTERS
        symbols = (info >> 32 for _, info, _ in self._relocations_of((words, slots, slots)))
        return any(0 < at < len(self._symbols) and self._bound(at)[0] == name for at in symbols)

    @cached_property
    def patches(self) -> tuple[int, ...]:
        """The addresses in code that the loader changes, in order: relocations of text, as of ``-z
        notext``. The code in memory differs from the file there."""
        flagged = DT_TEXTREL in self._tags or self._first(DT_FLAGS) & DF_TEXTREL
        code = [s for s in self._image.executable_segments if flagged or s.flags & PF_W]
        if not code:
            return ()
        relocations = (row for span in self._tables for row in RELA.iter_unpack(span.bytes))
        places = [*(at for at, _, _ in relocations), *self._relative()]
        found = {at for at in places for s in code if s.address <= at < s.address + s.size}
        return tuple(sorted(found))

    def _relative(self) -> Iterator[int]:
        """Where packed relative relocations are: gabi chapter 4, SHT_RELR."""
        data = self._bytes(self._first(DT_RELR), self._first(DT_RELRSZ))
        at = 0
        for (entry,) in WORD.iter_unpack(data[: len(data) // WORD.size * WORD.size]):
            if entry & 1:
                yield from (at + 8 * bit for bit in range(63) if entry >> bit + 1 & 1)
                at += 63 * 8
            else:
                yield entry
                at = entry + 8

    def _bound(self, symbol: int) -> tuple[str, int]:
        """The name of a symbol, and where the file itself defines it, or 0."""
        own = not self._symbols.flags[symbol] & UNDEFINED
        return _plain(self._symbols, symbol), self._symbols.address(symbol) if own else 0

    def _relocations_of(self, kinds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        for span in self._tables:
            for at in next_relocation(span, kinds):
                yield RELA.unpack_from(span.data, span.start + at * RELA.size)

    @cached_property
    def _tables(self) -> list[Span]:
        """The tables of relocations."""
        if not self._tags:  # a static program relocates itself: __rela_iplt_start
            sections = (s for s in self._image.sections if s.type == SHT_RELA)
            spans = [self._image.span(section) for section in sections]
        else:
            tables = ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ))
            spans = [self._span(self._first(table), self._first(size)) for table, size in tables]
        return [span._replace(size=span.size // RELA.size * RELA.size) for span in spans]

    @cached_property
    def _symbols(self) -> SymbolTable:
        """The dynamic symbols."""
        start = self._first(DT_SYMTAB)
        size = min(self._count(), SYMBOLS) * SYMBOL.size if start else 0
        source = SymbolSource(self._span(start, size), self._strings)
        return SymbolTable.of_every_symbol(source, self._tables)

    def _count(self) -> int:
        """The number of dynamic symbols, which no tag holds."""
        try:
            if table := self._first(DT_HASH):
                return int(unpack_from("<I", self._bytes(table + 4, 4))[0])
            hashed = self._hashed(self._first(DT_GNU_HASH))
        except LayoutError:
            hashed = 0
        return max(hashed, *map(relocated_symbols, self._tables), 0)

    def _hashed(self, table: int) -> int:
        """One more than the highest symbol in a GNU hash table; those that are undefined
        come before all in it."""
        if not table:
            return 0
        buckets, first, words, _ = unpack_from("<4I", self._bytes(table, 16))
        at = table + 16 + 8 * words
        data = self._bytes(at, 4 * min(buckets, SYMBOLS))
        last = max(unpack_from(f"<{len(data) // 4}I", data), default=0)
        if last < first:
            return int(first)
        chains = at + 4 * buckets - 4 * first
        chain = self._span(chains + 4 * last, 4 * SYMBOLS)
        words = chain.view[: chain.size // 4 * 4].cast("I")
        return last + next((n for n, word in enumerate(words, 1) if word & 1), len(words))

    @cached_property
    def _strings(self) -> Span:
        return self._span(self._first(DT_STRTAB), self._first(DT_STRSZ))

    def _texts(self, tag: int) -> list[str]:
        return [self._strings.string(offset) for offset in self._tags.get(tag, ())]

    def _first(self, tag: int) -> int:
        return next(iter(self._tags.get(tag, ())), 0)

    def _bytes(self, address: int, size: int) -> bytes:
        return self._span(address, size).bytes

    def _span(self, address: int, size: int) -> Span:
        for segment in self._image.segments:
            into = address - segment.address
            if segment.type == PT_LOAD and 0 <= into < segment.size:
                start, room = segment.offset + into, segment.size - into
                return Span(self._image.data, start, min(size, room))
        return Span()


def _find_row(span: Span, place: int, at: int) -> int:
    """The position in the file of the relocation of ``place``, from ``at`` on; -1 without."""
    end = span.start + span.size
    at = span.data.find(WORD.pack(place), at, end)
    while at >= 0 and ((at - span.start) % RELA.size or at + RELA.size > end):
        at = span.data.find(WORD.pack(place), at + 1, end)
    return at


def _plain(table: SymbolTable, position: int) -> str:
    """The name of a symbol without its version."""
    return table.raw_name(position).partition("@")[0]


class Names(Set[str]):
    """Names of some symbols."""

    def __init__(self, table: SymbolTable, takes: Callable[[int], bool]) -> None:
        """``takes`` decides by the flags of a symbol (`lbtrace.elf.symbol_table`) whether its name
        is one of them."""
        self._table = table
        self._takes = takes

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name or "@" in name:
            return False
        return name in self._among(self._table.named(name))

    def __iter__(self) -> Iterator[str]:
        return iter({*self._among(range(len(self._table)))})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def wanted(self, wanted: Wanted) -> set[str]:
        """Return those of them that are ``wanted``, and maybe others."""
        return {*self._among(self._table.wanted(wanted))}

    def _among(self, positions: Iterable[int]) -> Iterator[str]:
        flags = self._table.flags
        names = (_plain(self._table, p) for p in positions if self._takes(flags[p]))
        return filter(None, names)
