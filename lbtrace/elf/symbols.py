"""Reads the functions of an image from ``.symtab`` and ``.dynsym``, those of Go from its own
table.

The ``.symtab`` of a stripped image may lie in another file (`lbtrace.elf.debugfile`).

Layouts: gabi chapter 4 (symbols) and the LSB core specification (symbol versions).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter
from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.elf import debugfile
from lbtrace.elf.functions import Functions, ListedFunctions, TableFunctions
from lbtrace.elf.go import build
from lbtrace.elf.image import Image, Section
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import CHOOSER, COLD, FUNCTION, INSIDE, SymbolSource, SymbolTable
from lbtrace.errors import BinaryError
from lbtrace.model import Function

if TYPE_CHECKING:
    from lbtrace.elf.go.pclntab import GoTable

SHT_SYMTAB, SHT_DYNSYM = 2, 11
SHT_VERDEF, SHT_VERSYM = 0x6FFFFFFD, 0x6FFFFFFF
SHF_EXECINSTR = 4
VERSION_INDICES = 0x7FFF

VERDEF = Layout("<HHHHIII")
VERDAUX = Layout("<II")


class Symbols:
    """The content of the symbol tables.

    ``functions`` are in the order of their addresses, one per address.
    ``starts`` are the addresses, in order, of all symbols in code, labels
    and cold parts included. ``cold`` are the parts split off functions, which are jumped to,
    not called: their stack pointer does not point at a return address. ``ifuncs`` and, by the
    address of their resolver, ``ifunc_names`` are functions whose code the loader
    chooses at run time (STT_GNU_IFUNC): their symbol is that of the resolver. ``go`` is the table
    of the Go functions.
    """

    def __init__(
        self,
        functions: Functions,
        starts: Sequence[int],
        cold: Functions,
        ifuncs: Sequence[tuple[int, str]] = (),
        default_version: Callable[[str], str] = lambda name: "",
        go: GoTable | None = None,
        find_chosen: Callable[[Iterable[str]], list[Function]] = lambda names: [],
    ) -> None:
        """``default_version`` gives the version that a request for a name without one gets,
        empty where it has none. ``ifuncs`` are choosers and the names of their functions.
        ``find_chosen`` gives those of ``ifuncs`` whose code is known, by their names."""
        self.functions = functions
        self.starts = starts
        self.cold = cold
        self.default_version = default_version
        self.go = go
        self._find_chosen = find_chosen
        self.ifuncs = tuple(sorted({name for _, name in ifuncs}))
        # of several names of one the shortest
        self.ifunc_names = dict(sorted(ifuncs, key=lambda each: -len(each[1])))

    def chosen(self, names: Collection[str]) -> list[Function]:
        """Return those of ``ifuncs`` with these ``names`` of which it is known what code the loader
        chose. Of several with the same code each has the names of the others, too."""
        if not names:
            return []
        found = {function.name: function for function in self._find_chosen(self.ifuncs)}
        alike: dict[int, list[str]] = {}
        for function in found.values():
            alike.setdefault(function.address, []).append(function.name)
        made = []
        for function in filter(None, map(found.get, names)):
            known = self.functions.holding(function.address)
            if known is None or known.address != function.address:
                known = function
            others = (*alike[known.address], known.name, *known.aliases)
            aliases = tuple(dict.fromkeys(name for name in others if name != function.name))
            made.append(replace(known, name=function.name, aliases=aliases, local=False))
        return made

    @property
    def inlined(self) -> tuple[str, ...]:
        """Functions without code of their own that the file names."""
        return self.go.inlined if self.go else ()

    def following(self, address: int) -> int:
        """Return the lowest start after ``address``, or 2**64 if there is none."""
        index = bisect_right(self.starts, address)
        return self.starts[index] if index < len(self.starts) else 1 << 64

    def cold_parts(self, function: Function) -> Sequence[Function]:
        """Return the parts that were split off ``function``, by its names."""
        if not self.cold:
            return ()
        names = (function.name, *function.aliases)
        candidates = ((name, part) for name in names for part in self.cold.named(name))
        return [part for name, part in candidates if _split_off(part) == name]

    def owners(self, part: Function) -> list[Function]:
        """Return the functions that ``part`` may have been split off, by its name: local ones may
        share it."""
        name = _split_off(part)
        return [f for f in self.functions.named(name) if name in (f.name, *f.aliases)]


def _split_off(part: Function) -> str:
    """The name of the function that a cold part is of."""
    return part.name.partition(".cold")[0]


def read(image: Image, *, servers: bool = True) -> Symbols:
    """Return the functions of ``image``.

    Undefined symbols, PLT stubs, data, cold parts and what lies outside the
    executable segments are left out. Stripped symbols are read from the separate debug file;
    without ``servers`` it is searched only on this machine.

    Raises `BinaryError` if there is no symbol table, or none with a function.
    """
    found = read_any(image, servers=servers)
    if not found.functions:
        raise BinaryError(
            f"{image.path}: is stripped, and nothing names its functions",
            debugfile.advice(image),
        )
    return found


def may_name(image: Image, names: Iterable[str]) -> bool:
    """Return whether a symbol of ``image`` may have one of ``names``: its symbols are not read."""
    sources = _sources(image, servers=True)
    return any(source.strings.holds(name) for name in names for source in sources)


def read_any(image: Image, *, servers: bool = True) -> Symbols:
    """Return the functions of ``image`` as `read` does, none where it names none."""
    sources = _sources(image, servers=servers)
    code = _bounds((s.address, s.address + s.size) for s in image.executable_segments)
    stubs = _bounds(
        (s.address, s.address + s.size) for s in image.sections if s.name.startswith(".plt")
    )
    ends = _bounds(
        (s.address, s.address + s.size) for s in image.sections if s.flags & SHF_EXECINSTR
    )
    table = SymbolTable.of_functions(sources, code, stubs)
    functions: Functions = TableFunctions(image, table, FUNCTION, ends)
    starts: Sequence[int] = table.addresses
    go = _go_table(image)
    if go:
        functions = _with_go(functions, go)
        starts = array(
            "Q", sorted({*table.addresses, *go.starts}) if table.addresses else go.starts
        )
    functions = functions or _marked(image, table)
    choosers = [*map(table.symbol, table.flagged(CHOOSER | INSIDE))]
    return Symbols(
        functions,
        starts,
        TableFunctions(image, table, COLD, ends),
        [(symbol.address, symbol.name) for symbol in choosers],
        table.default_version,
        go,
        partial(_chosen, image),
    )


def _chosen(image: Image, names: Iterable[str]) -> list[Function]:
    """Those of the indirect functions with these ``names`` whose code is known."""
    from lbtrace.elf import chosen_functions  # imported here because few ask for them

    addresses = chosen_functions.find(image, names)
    return [Function(name, at, 0, image.offset(at)) for name, at in addresses.items()]


def _marked(image: Image, table: SymbolTable) -> Functions:
    """The places that both a symbol and a marker name, in files without functions: libraries that
    libstapsdt makes have no others (src/dynamic-symbols.c)."""
    from lbtrace.elf.stap_notes import read_markers  # imported here: nearly no file needs it

    places = {marker.address for marker in read_markers(image)}
    named = map(table.symbol, table.flagged(INSIDE)) if places else ()
    found = {symbol.address: symbol.name for symbol in named if symbol.address in places}
    return ListedFunctions(
        [Function(name, at, 0, image.offset(at)) for at, name in sorted(found.items())]
    )


def _go_table(image: Image) -> GoTable | None:
    if not build.is_go(image):
        return None
    from lbtrace.elf.go import pclntab  # imported here because most programs are not Go

    return pclntab.read(image)


def _with_go(functions: Functions, go: GoTable) -> Functions:
    """The functions of Go by its own table, the others by the symbol tables.

    Go's table names instances of generic functions alike, ``F[...]``: there
    the symbol, if there is one, says more.
    """
    # The table may be damaged.
    ends = (min(max(end - 1, 0), (1 << 64) - 1) for end in (go.start, max(go.start, go.end)))
    below, above = map(functions.before, ends)
    renamed = {f.address: named for f in functions[below:above] if (named := _renamed(f, go))}
    merged = go.functions.among(functions[:below], functions[above:], renamed)
    return merged if go.is_ordered else ListedFunctions(sorted(merged, key=attrgetter("address")))


def _renamed(symbol: Function, go: GoTable) -> Function | None:
    """The function of Go that ``symbol`` gives another name, or more; None where it does not."""
    function = go.functions.at(symbol.address)
    others = (symbol.name, *symbol.aliases)
    if function is None or others == (function.name,):
        return None
    name = symbol.name if "[...]" in function.name else function.name
    names = dict.fromkeys((function.name, *others))
    aliases = tuple(each for each in names if each != name)
    return Function(name, function.address, function.size, function.offset, aliases)


def _sources(image: Image, *, servers: bool) -> list[SymbolSource]:
    """The symbol tables of ``image``."""
    sources: list[SymbolSource] = []
    for kind in (SHT_SYMTAB, SHT_DYNSYM):  # a file has one of each at most (gabi)
        section = next((s for s in image.sections if s.type == kind), None)
        if section is not None:
            sources.append(_source(image, section))
    if not image.has_symbol_table:
        elsewhere = debugfile.symbol_table(image, servers=servers)
        sources.append(SymbolSource(elsewhere.symbols, elsewhere.strings))
    return sources


def _source(image: Image, section: Section) -> SymbolSource:
    symbols, strings = image.span(section), Span()
    if section.link < len(image.sections):
        strings = image.span(image.sections[section.link])
    words = next((s for s in image.sections if s.type == SHT_VERSYM), None)
    names = next((s for s in image.sections if s.type == SHT_VERDEF), None)
    if section.type != SHT_DYNSYM or words is None or names is None:
        return SymbolSource(symbols, strings)
    if names.link >= len(image.sections):
        return SymbolSource(symbols, strings)
    texts = image.span(image.sections[names.link])
    return SymbolSource(
        symbols, strings, image.span(words), _version_names(image.content(names), texts)
    )


def _version_names(data: bytes, strings: Span) -> dict[int, str]:
    """Version indices and their names; 0, 1 and the base version (the file's own) have none."""
    names: dict[int, str] = {}
    position = 0
    for _ in range(VERSION_INDICES):
        if position + VERDEF.size > len(data):
            break
        _, flags, index, _, _, aux, following = VERDEF.unpack_from(data, position)
        if not flags & 1 and index > 1 and position + aux + VERDAUX.size <= len(data):
            names[index] = strings.string(VERDAUX.unpack_from(data, position + aux)[0])
        if not following:
            break
        position += following
    return names


def _bounds(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Starts and ends of ``ranges`` in turn, in order, where they overlap put together: an address
    with an odd number of them below it lies inside."""
    bounds: list[int] = []
    for start, end in sorted(ranges):
        if bounds and start < bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        elif start < end:
            bounds += (start, end)
    return bounds
