"""Symbol tables (gabi, chapter 4) as columns that native code makes and searches.

A file has a hundred thousand symbols, of which few are asked for: the others never become
objects of Python. A symbol is a *position* here, in the order of the tables. Searches give
those that may be meant; callers compare names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct as Layout
from typing import Any, Literal

from msgspec import Struct

from lbtrace.elf import strings
from lbtrace.elf._symbol_table import ffi, lib
from lbtrace.elf.span import Span

SYMBOL = Layout("<IBBHQQ")
STB_LOCAL = 0
VERSION_HIDDEN = 0x8000

FUNCTION: int = lib.LBT_FUNCTION
CHOOSER: int = lib.LBT_CHOOSER
COLD: int = lib.LBT_COLD
INSIDE: int = lib.LBT_INSIDE
SHORTENED: int = lib.LBT_SHORTENED
DOTTED: int = lib.LBT_DOTTED
"""What is known of a symbol: see lbtrace/native/symbol_table.h."""


NAMES_AT_ONCE = 1 << 18
"""Bytes of names of functions that are read at once, more than the longest takes."""


ALIKE = 1000
"""Symbols of one name of which the version is looked for: the last ones, as those that can be seen
elsewhere follow those that cannot, which may share a name (gabi, chapter 4)."""


class SymbolSource(Struct, frozen=True):
    """A symbol table, its strings, and the words of SHT_GNU_versym with the names of ``versions``
    by their index, where there are any."""

    symbols: Span
    strings: Span
    words: Span = Span()
    versions: Mapping[int, str] = {}


class Symbol(Struct, frozen=True):
    """A symbol. Its ``name`` is without the default ``version``, with any other after ``@``."""

    address: int
    size: int
    local: bool
    name: str
    version: str


class Wanted:
    """Names that are searched together: whole ``names``, without what follows a dot or an ``@``,
    and ``beginnings``, where ``#`` stands for a number, and ``*`` for anything: the rest is
    somewhere in the name."""

    def __init__(self, names: Iterable[str], beginnings: Iterable[str] = ()) -> None:
        self.hashes = {name: hash_of(name) for name in names}
        """Of the whole names, those in a `lbtrace.elf.dynamic_symbols.HashTable`."""
        whole = "".join(f"{name}\0" for name in self.hashes).encode()
        begun = "".join(f"{beginning}\0" for beginning in beginnings).encode()
        made = lib.lbt_want(whole, len(whole), begun, len(begun))
        self.native = _made(made, lib.lbt_free_wanted)


def hash_of(name: str) -> int:
    """Return the hash of a name in a `lbtrace.elf.dynamic_symbols.HashTable`."""
    hashed = 5381
    for byte in name.encode(errors="replace"):
        hashed = hashed * 33 + byte & 0xFFFFFFFF
    return hashed


LAST_ADDRESS = (1 << 64) - 1


class SymbolTable:
    """The symbols of one file, from up to three tables."""

    def __init__(self, sources: Sequence[SymbolSource], native: Any, kept: object) -> None:
        """``native`` has read ``sources``; ``kept`` is what it refers to."""
        self._sources = sources
        self._native = native
        self._kept = kept
        self._versions: dict[str, str] = {}
        count = native.count
        self._rows = _column(native.rows, count, "I")
        self.flags = _column(native.flags, count, "H")
        self.addresses = _column(native.addresses, native.inside, "Q")
        """Those of the symbols in code, in order."""
        self._by_address = _column(native.by_address, native.inside, "I")
        self._groups = {
            FUNCTION: _column(native.functions, native.function_count, "I"),
            COLD: _column(native.cold, native.cold_count, "I"),
        }

    def __len__(self) -> int:
        return len(self._rows)

    @classmethod
    def of_functions(
        cls, sources: Sequence[SymbolSource], code: Sequence[int], stubs: Sequence[int]
    ) -> SymbolTable:
        """Return the defined symbols that may be of code. ``code`` and ``stubs`` are bounds, starts
        and ends in turn."""
        listed, kept = _listed(sources)
        bounds = (*_bounds(code), *_bounds(stubs))
        made = lib.lbt_read_functions(listed, len(sources), *bounds, _LIMITS)
        return cls(sources, _made(made, lib.lbt_free_symbols), kept)

    @classmethod
    def of_every_symbol(cls, source: SymbolSource) -> SymbolTable:
        """Return all symbols of one table, each at the position that it has there."""
        listed, kept = _listed([source])
        made = _made(lib.lbt_read_every_symbol(listed, _LIMITS), lib.lbt_free_symbols)
        return cls([source], made, kept)

    @property
    def native_address(self) -> int:
        """Where its ``struct lbt_symbols`` is, for native code; it lives as long as this."""
        return int(ffi.cast("uintptr_t", self._native))

    def symbol(self, position: int) -> Symbol:
        """Return the symbol at ``position``."""
        source, row = self._located(position)
        at = source.symbols.start + row * SYMBOL.size
        offset, info, _, _, value, size = SYMBOL.unpack_from(source.symbols.data, at)
        name, version = self._name(source, row, offset, self.flags[position]), ""
        if "@" in name and (split := name.find("@", 1)) > 0 and name.startswith("@@", split):
            name, version = name[:split], name[split + 2 :]
        return Symbol(value, size, info >> 4 == STB_LOCAL, name, version)

    def default_version(self, name: str) -> str:
        """Return the version that a request for ``name`` without one gets; empty where it has
        none."""
        if name not in self._versions:
            last = sorted(self.named(name), reverse=True)[:ALIKE]
            found = map(self.symbol, last)
            version = next((s.version for s in found if s.version and s.name == name), "")
            self._versions[name] = version
        return self._versions[name]

    def raw_name(self, position: int) -> str:
        """Return the name of the symbol at ``position`` as it stands in the table."""
        source, row = self._located(position)
        at = source.symbols.start + row * SYMBOL.size
        (offset, *_) = SYMBOL.unpack_from(source.symbols.data, at)
        longest = strings.SHORT if self.flags[position] & SHORTENED else strings.LONGEST
        return source.strings.string(offset, longest)

    def address(self, position: int) -> int:
        """Return the value of the symbol at ``position``."""
        source, row = self._located(position)
        at = source.symbols.start + row * SYMBOL.size
        return int(SYMBOL.unpack_from(source.symbols.data, at)[4])

    def named(self, name: str) -> Iterator[int]:
        """Return those that may be called ``name``, with a version or what compilers append."""
        text = name.encode(errors="replace")
        return self._each(lib.lbt_next_named, text, len(text))

    def holding(self, part: str, flags: int = 0) -> Iterator[int]:
        """Return those with ``part`` in their name and all of ``flags``."""
        text = part.encode(errors="replace")
        return self._each(lib.lbt_next_holding, text, len(text), flags, self._is_of_version(part))

    def _is_of_version(self, part: str) -> bool:
        versions = {each for source in self._sources for each in source.versions.values()}
        return "@" in part or any(part in each for each in versions)

    def flagged(self, flags: int) -> Iterator[int]:
        """Return those with all of ``flags``."""
        return self._each(lib.lbt_next_flagged, flags)

    def wanted(self, wanted: Wanted) -> Iterator[int]:
        """Return those that may have one of the names."""
        return self._each(lib.lbt_next_wanted, wanted.native)

    def _each(self, search: Any, *arguments: object) -> Iterator[int]:
        position, count = search(self._native, 0, *arguments), len(self)
        while position < count:
            yield position
            position = search(self._native, position + 1, *arguments)
        if position > count:
            raise MemoryError

    def count(self, kind: int) -> int:
        """Return the addresses at which a `FUNCTION` begins, or a part of one, `COLD`."""
        return len(self._groups[kind])

    def before(self, kind: int, address: int) -> int:
        """Return how many of them begin at ``address`` or before it."""
        group = self._groups[kind]
        pointer = self._native.cold if kind == COLD else self._native.functions
        return int(lib.lbt_bisect_symbols(self._native, pointer, len(group), address))

    def starts(self) -> list[int]:
        """Return where the functions begin."""
        return [*map(self.addresses.__getitem__, self._groups[FUNCTION])]

    def names(self) -> list[str]:
        """Return the name of each function, the plainest where it has several; empty where that is
        not plain."""
        names: list[str] = []
        at, into = ffi.new("size_t *"), ffi.new("char[]", NAMES_AT_ONCE)
        while used := lib.lbt_write_names(self._native, at, into, NAMES_AT_ONCE):
            names += str(ffi.buffer(into, used - 1), "ascii", "backslashreplace").split("\0")
        return names

    def start(self, kind: int, number: int) -> int:
        """Return where the ``number``-th of them begins."""
        return int(self.addresses[self._groups[kind][number]])

    def group(self, kind: int, number: int) -> Iterator[int]:
        """Yield the symbols of the ``number``-th of them, in the order of the tables."""
        first = self._groups[kind][number]
        address, addresses = self.addresses[first], self.addresses
        for place in range(first, len(addresses)):
            if addresses[place] != address:
                return
            position = self._by_address[place]
            if self.is_of(position, kind):
                yield position

    def largest(self, kind: int, number: int) -> int:
        """Return the largest size that one of its symbols gives the ``number``-th of them."""
        return int(lib.lbt_largest_size(self._native, kind == COLD, number))

    def covering(self, number: int, least: int, address: int) -> Iterator[int]:
        """Yield which functions before the ``number``-th, from the ``least``-th on, reach over
        ``address`` by the size that their symbols give, the last first."""
        search, native = lib.lbt_last_covering, self._native
        while (found := search(native, number, least, address)) < number:
            yield found
            number = found

    def following(self, address: int) -> Iterator[int]:
        """Yield where the next function begins after ``address``, and the next part of one."""
        for kind in self._groups:
            number = self.before(kind, address)
            if number < self.count(kind):
                yield self.start(kind, number)

    def is_of(self, position: int, kind: int) -> bool:
        """Return whether a symbol is that of a `FUNCTION`, or of a part of one, `COLD`, in code."""
        within = FUNCTION | COLD | INSIDE if kind == FUNCTION else COLD | INSIDE
        return self.flags[position] & within == kind | INSIDE

    def _located(self, position: int) -> tuple[SymbolSource, int]:
        row = self._rows[position]
        for source in self._sources:
            rows = source.symbols.size // SYMBOL.size
            if row < rows:
                return source, row
            row -= rows
        raise IndexError(position)

    @staticmethod
    def _name(source: SymbolSource, row: int, offset: int, flags: int) -> str:
        """The name with its version, as nm(1) prints it."""
        longest = strings.SHORT if flags & SHORTENED else strings.LONGEST
        name = source.strings.string(offset, longest)
        at = source.words.start + 2 * row
        if not source.versions or 2 * row + 2 > source.words.size:
            return name
        word = int.from_bytes(source.words.data[at : at + 2], "little")
        version = source.versions.get(word & ~VERSION_HIDDEN, "")
        return f"{name}{'@' if word & VERSION_HIDDEN else '@@'}{version}" if version else name


_LIMITS = ffi.new(
    "struct lbt_name_limits *",
    [strings.LONGEST, strings.SHORT, strings.SHARED, strings.LEAST],
)


def _listed(sources: Sequence[SymbolSource]) -> tuple[Any, object]:
    """``sources`` for native code, and what must live as long as they are read."""
    listed = ffi.new("struct lbt_symbol_source[]", len(sources))
    kept: list[object] = [listed]
    for row, source in zip(listed, sources, strict=True):
        parts = [source.symbols, source.strings, source.words if source.versions else Span()]
        # Not of `Span.view`: a memoryview that is exported and garbage of a cycle ends CPython
        # 3.11 (memory_clear in Objects/memoryobject.c).
        buffers = [ffi.from_buffer(part.data) for part in parts]
        starts = [buffer + part.start for buffer, part in zip(buffers, parts, strict=True)]
        row.symbols, row.strings, row.versions = starts
        row.size, row.strings_size, row.versions_size = [part.size for part in parts]
        kept += buffers
    return listed, kept


def _bounds(bounds: Sequence[int]) -> tuple[Any, int]:
    # In a damaged file a section may end beyond the last address.
    return ffi.new("uint64_t[]", [min(bound, LAST_ADDRESS) for bound in bounds]), len(bounds)


def _made(made: Any, free: Any) -> Any:
    if made == ffi.NULL:
        raise MemoryError
    return ffi.gc(made, free)


def _column(start: Any, count: int, kind: Literal["H", "I", "Q"]) -> memoryview:
    if not count:
        return memoryview(bytes(8)).cast(kind)[:0]
    return memoryview(ffi.buffer(start, count * ffi.sizeof(ffi.typeof(start).item))).cast(kind)
