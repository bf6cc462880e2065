"""What an image declares to the dynamic loader: the libraries it needs, the names it imports.

Everything is read by the program headers, as the loader does, so files without section
headers are understood too. Layouts: gabi chapter 5 (dynamic section, relocations, hash
table); tags of ``elf.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import cached_property
from struct import Struct as Layout

from lbtrace.elf.dynamic_symbols import DynamicSymbols, HashTable
from lbtrace.elf.image import DYN, PT_DYNAMIC, PT_LOAD, Image
from lbtrace.elf.memory import PF_W
from lbtrace.elf.span import Span
from lbtrace.elf.strings import string
from lbtrace.elf.symbol_table import Wanted
from lbtrace.machine import Machine

RELA = Layout("<QQq")
WORD = Layout("<Q")

PT_INTERP = 3
DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 1, 2, 4, 5, 6, 7, 8
DT_STRSZ, DT_SONAME, DT_RPATH, DT_JMPREL, DT_RUNPATH = 10, 14, 15, 23, 29
DT_GNU_HASH, DT_RELACOUNT, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFF9, 0x6FFFFFFB
DT_AUDIT, DT_DEPAUDIT, DT_AUXILIARY, DT_FILTER = 0x6FFFFEFC, 0x6FFFFEFB, 0x7FFFFFFD, 0x7FFFFFFF
DT_TEXTREL, DT_FLAGS, DT_RELRSZ, DT_RELR = 22, 30, 35, 36
DT_SYMBOLIC = 16
DF_1_NODEFLIB, DF_SYMBOLIC, DF_TEXTREL = 0x800, 2, 4

SHT_RELA = 4

MUSL, MUSL_LOADER = "libc.musl-any.so.1", "__dls3"
"""A name like that of Alpine's musl, and what only musl exports (ldso/dynlink.c)."""

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

    @cached_property
    def library(self) -> str:
        """The name by which a library is known: the former; for musl, which may lack it, one like
        Alpine's."""
        return self.soname or (MUSL if self.defined(MUSL_LOADER) else "")

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

    @property
    def is_symbolic(self) -> bool:
        """Whether the file uses its own definitions, whatever others there are."""
        return DT_SYMBOLIC in self._tags or bool(self._first(DT_FLAGS) & DF_SYMBOLIC)

    @cached_property
    def imports(self) -> Names:
        """The names that the loader looks up for this file: every undefined symbol, and
        whatever a relocation names (also one that the file defines itself), without versions."""
        symbols = self._symbols
        return Names(symbols, lambda at: symbols.is_undefined(at) or at in self._relocated)

    def names_ending(self, ending: bytes) -> Iterator[str]:
        """Return the names of the dynamic symbols, imported or offered, that end so, and maybe the
        ends of others: they are searched for without a look at the symbols."""
        span = self._strings
        end = span.start + span.size
        at = span.data.find(ending, span.start, end)
        while at >= 0:
            begin = span.data.rfind(b"\0", span.start, at) + 1
            yield span.data[begin : at + len(ending) - 1].decode("utf-8", "replace")
            at = span.data.find(ending, at + len(ending), end)

    @cached_property
    def slots(self) -> Mapping[int, int]:
        """The words of the GOT that the loader fills with the address of a function or
        variable, with its symbol: see `bound`."""
        kinds = Machine(self._image.machine).linking.SLOTS
        return {at: symbol for at, kind, symbol in self._relocations() if kind in kinds and symbol}

    @cached_property
    def pointed_to(self) -> Set[int]:
        """The symbols whose addresses the loader writes to where not only stubs use them."""
        only_stubs = max(Machine(self._image.machine).linking.SLOTS)  # JUMP_SLOT
        return {symbol for _, kind, symbol in self._relocations() if kind != only_stubs}

    @cached_property
    def resolvers(self) -> Mapping[int, int]:
        """The words of the GOT that the loader fills with what a function chooses (STT_GNU_IFUNC),
        and where that function is."""
        kind, rows = Machine(self._image.machine).linking.INDIRECT, self._tables[-1:]
        unpacked = (row for span in rows for row in RELA.iter_unpack(span.view))
        return {at: addend for at, info, addend in unpacked if info & 0xFFFFFFFF == kind}

    def thread_slot(self, name: str) -> int:
        """Return the word of the GOT into which the loader writes where the file's thread-local
        variable ``name`` lies from the thread pointer on, or 0."""
        kind, symbols = Machine(self._image.machine).linking.THREAD_OFFSET, self._symbols
        found = symbols.named(name)
        own = {symbols.address(at) for at in found if not symbols.is_undefined(at)}
        for span in self._tables:
            for at, info, addend in RELA.iter_unpack(span.view):
                symbol = info >> 32
                if info & 0xFFFFFFFF == kind and (
                    symbol in found or (not symbol and addend in own)
                ):
                    return int(at)
        return 0

    def wanted(self, wanted: Wanted) -> Mapping[int, str]:
        """Return the symbols that are ``wanted``, with their names; maybe more."""
        return self._symbols.wanted(wanted)

    def bound(self, symbol: int) -> tuple[str, int]:
        """Return the name of a symbol, and where the file itself defines it, or 0."""
        return self._symbols.name(symbol), self._symbols.address(symbol)

    def defined(self, name: str) -> int:
        """Return where the file itself defines the dynamic symbol ``name``, or 0."""
        symbols = self._symbols
        found = (symbols.address(at) for at in symbols.named(name) if not symbols.is_undefined(at))
        return next(found, 0)

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

    @cached_property
    def _relocated(self) -> Set[int]:
        """The symbols that relocations name."""
        return {symbol for _, _, symbol in self._relocations()}

    def _relocations(self) -> Iterator[tuple[int, int, int]]:
        """Yield the place, the kind and the symbol of the relocations, without those at the
        beginning that name none, as linkers sort them."""
        relative = self._first(DT_RELACOUNT) * RELA.size
        for span in self._tables:
            skipped = min(relative, span.size)
            for at, info, _ in RELA.iter_unpack(span.view[skipped:]):
                yield at, info & 0xFFFFFFFF, info >> 32
            relative = 0

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
    def _symbols(self) -> DynamicSymbols:
        """The dynamic symbols."""
        hashes = HashTable.read(self._rest(self._first(DT_GNU_HASH)))
        count = min(hashes.first if hashes else self._count(), SYMBOLS)
        table = self._rest(self._first(DT_SYMTAB))
        return DynamicSymbols(table, self._strings, count if table.size else 0, hashes)

    def _count(self) -> int:
        """The number of dynamic symbols in a file without a GNU hash table: no tag holds it."""
        table = self._first(DT_HASH)
        words = self._bytes(table + 4, 4) if table else b""
        return int.from_bytes(words, "little") or max(self._relocated, default=-1) + 1

    def _rest(self, address: int) -> Span:
        """What is at ``address``, up to the end of its segment."""
        return self._span(address, len(self._image.data)) if address else Span()

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


class Names:
    """Names of some symbols."""

    def __init__(self, symbols: DynamicSymbols, takes: Callable[[int], bool]) -> None:
        """``takes`` decides whether the name of a symbol is one of them."""
        self._symbols = symbols
        self._takes = takes

    def __contains__(self, name: object) -> bool:
        return bool(name) and any(map(self._takes, self._symbols.named(str(name))))

    def wanted(self, wanted: Wanted) -> set[str]:
        """Return those of them that are ``wanted``, and maybe others."""
        return {name for at, name in self._symbols.wanted(wanted).items() if self._takes(at)}
