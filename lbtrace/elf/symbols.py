"""The functions of an image, from ``.symtab`` and ``.dynsym``, of Go from its own table.

Tables are unpacked whole and filtered in comprehensions: a hundred thousand
symbols take a fraction of a second. Layouts: gabi chapter 4 (symbols) and
the LSB core specification (symbol versions).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import repeat
from operator import attrgetter
from struct import Struct as Layout
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from lbtrace.elf import gobuild
from lbtrace.elf.image import Image, Section, string
from lbtrace.errors import BinaryError
from lbtrace.model import Function

if TYPE_CHECKING:
    from lbtrace.elf.gopclntab import GoTable

SYMBOL = Layout("<IBBHQQ")
SHT_SYMTAB, SHT_DYNSYM = 2, 11
SHT_VERDEF, SHT_VERSYM = 0x6FFFFFFD, 0x6FFFFFFF
SHN_UNDEF, SHN_LORESERVE, SHN_XINDEX = 0, 0xFF00, 0xFFFF
STT_NOTYPE, STT_FUNC, STT_IFUNC = 0, 2, 10
STB_LOCAL = 0
SHF_EXECINSTR = 4
VERSION_HIDDEN = 0x8000

VERDEF = Layout("<HHHHIII")
VERDAUX = Layout("<II")

COLD = re.compile(r"\.cold(\.\d+)?$")
"""Names of the cold parts that gcc and LLVM split off functions. They are
jumped to, not called: their stack pointer does not point at a return address."""


class Symbols(Struct):
    """What the symbol tables say.

    ``functions`` are in the order of their addresses, one per address.
    ``starts`` are the addresses, in order, of all symbols in code, labels
    and cold parts included. ``ifuncs`` names the functions whose code the
    loader chooses at run time (STT_GNU_IFUNC): their symbol is the chooser,
    not the function. ``versions`` gives the default version of a name. ``cold``
    are the parts split off functions. ``go`` is the table of the Go functions.
    """

    functions: list[Function]
    starts: list[int]
    ifuncs: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    cold: list[Function] = []
    go: GoTable | None = None

    @property
    def inlined(self) -> tuple[str, ...]:
        """Functions that have no code of their own, as far as the file names them."""
        return self.go.inlined if self.go else ()

    def following(self, address: int) -> int:
        """The lowest start behind ``address``, or 2**64 if there is none."""
        index = bisect_right(self.starts, address)
        return self.starts[index] if index < len(self.starts) else 1 << 64


class _Symbol(NamedTuple):
    address: int
    size: int
    kind: int
    local: bool
    name: str


def read(image: Image) -> Symbols:
    """The functions of ``image``.

    Undefined symbols, PLT stubs, data, cold parts and what lies outside the
    executable segments are left out.

    Raises `BinaryError` if there is no symbol table, or none with a function.
    """
    tables = [s for s in image.sections if s.type in (SHT_SYMTAB, SHT_DYNSYM)]
    versions: dict[str, str] = {}
    symbols: list[_Symbol] = []
    for table in tables:
        symbols += _table(image, table, versions)
    inside = _inside(image, symbols)
    functions = _fold(image, [s for s in inside if s.kind == STT_FUNC and not COLD.search(s.name)])
    go = _go_table(image)
    if go:
        functions = _with_go(functions, go)
    if not functions:
        raise BinaryError(
            f"{image.path}: has no symbol table that names functions",
            "use a build that is not stripped, or one that exports its functions",
        )
    return Symbols(
        functions=functions,
        starts=sorted({s.address for s in inside}.union(go.starts if go else ())),
        ifuncs=tuple(sorted({s.name for s in inside if s.kind == STT_IFUNC})),
        versions=versions,
        cold=_fold(image, [s for s in inside if COLD.search(s.name)]),
        go=go,
    )


def _go_table(image: Image) -> GoTable | None:
    if not gobuild.is_go(image):
        return None
    from lbtrace.elf import gopclntab  # late: most programs are not Go

    return gopclntab.read(image)


def _with_go(functions: list[Function], go: GoTable) -> list[Function]:
    """The functions of Go by its own table, the others by the symbol tables.

    Go's table names instances of generic functions alike, ``F[...]``: there
    the symbol, if there is one, says more.
    """
    merged = [f for f in functions if not go.start <= f.address < go.end]
    symbols = {f.address: (f.name, *f.aliases) for f in functions}
    for function in go.functions:
        others = symbols.get(function.address)
        if others is None or others == (function.name,):
            merged.append(function)
            continue
        name = others[0] if "[...]" in function.name else function.name
        names = dict.fromkeys((function.name, *others))
        merged.append(
            Function(
                name,
                function.address,
                function.size,
                function.offset,
                tuple(n for n in names if n != name),
            )
        )
    return sorted(merged, key=attrgetter("address"))


def _table(image: Image, table: Section, versions: dict[str, str]) -> list[_Symbol]:
    data = image.content(table)
    strings = b""
    if table.link < len(image.sections):
        strings = image.content(image.sections[table.link])
    rows = SYMBOL.iter_unpack(data[: len(data) // SYMBOL.size * SYMBOL.size])
    suffixes = _suffixes(image, len(data) // SYMBOL.size) if table.type == SHT_DYNSYM else None
    wanted = (STT_FUNC, STT_IFUNC, STT_NOTYPE)
    symbols: list[_Symbol] = []
    for (offset, info, _, index, value, size), version in zip(
        rows, suffixes or repeat(""), strict=False
    ):
        kind = info & 15
        if kind not in wanted or not value or index == SHN_UNDEF:
            continue
        if SHN_LORESERVE <= index < SHN_XINDEX:
            continue
        name = string(strings, offset)
        if not name:
            continue
        if version or "@" in name:
            name, suffix = _split_version(name + version)
            if suffix.startswith("@@"):
                versions[name] = suffix[2:]
            else:
                name += suffix
        symbols.append(_Symbol(value, size, kind, info >> 4 == STB_LOCAL, name))
    return symbols


def _split_version(name: str) -> tuple[str, str]:
    at = name.find("@", 1)
    return (name[:at], name[at:]) if at > 0 else (name, "")


def _suffixes(image: Image, count: int) -> list[str] | None:
    """What nm(1) prints behind each dynamic symbol: ``@@V``, ``@V`` or nothing."""
    versym = next((s for s in image.sections if s.type == SHT_VERSYM), None)
    verdef = next((s for s in image.sections if s.type == SHT_VERDEF), None)
    if versym is None or verdef is None or verdef.link >= len(image.sections):
        return None
    names = _version_names(image.content(verdef), image.content(image.sections[verdef.link]))
    data = image.content(versym)
    indices = memoryview(data[: min(len(data) // 2, count) * 2]).cast("H")
    suffix: dict[int, str] = {}
    for index in set(indices):
        name = names.get(index & ~VERSION_HIDDEN, "")
        suffix[index] = ("@" if index & VERSION_HIDDEN else "@@") + name if name else ""
    return [suffix[index] for index in indices] + [""] * (count - len(indices))


def _version_names(data: bytes, strings: bytes) -> dict[int, str]:
    """Version indices and their names; 0, 1 and the base version (the file's own) have none."""
    names: dict[int, str] = {}
    position = 0
    while position + VERDEF.size <= len(data):
        _, flags, index, _, _, aux, following = VERDEF.unpack_from(data, position)
        if not flags & 1 and index > 1 and position + aux + VERDAUX.size <= len(data):
            names[index] = string(strings, VERDAUX.unpack_from(data, position + aux)[0])
        if not following:
            break
        position += following
    return names


def _inside(image: Image, symbols: list[_Symbol]) -> list[_Symbol]:
    """The symbols that lie in code and not in a PLT."""
    stubs = [(s.address, s.address + s.size) for s in image.sections if s.name.startswith(".plt")]
    kept: list[_Symbol] = []
    for segment in image.executable_segments:
        first, end = segment.address, segment.address + segment.size
        kept += [s for s in symbols if first <= s.address < end]
    for low, high in stubs:
        kept = [s for s in kept if not low <= s.address < high]
    return kept


def _fold(image: Image, symbols: list[_Symbol]) -> list[Function]:
    """One `Function` an address: the best name, the others as aliases, the largest size."""
    firsts: dict[int, _Symbol] = {}
    shared: dict[int, list[_Symbol]] = {}
    for symbol in symbols:
        first = firsts.setdefault(symbol.address, symbol)
        if first is not symbol:
            shared.setdefault(symbol.address, [first]).append(symbol)
    addresses = sorted(firsts)
    functions: list[Function] = []
    for address in addresses:
        _, size, _, local, name = firsts[address]
        aliases: tuple[str, ...] = ()
        if address in shared:
            group = sorted(shared[address], key=_rank)
            name, *others = dict.fromkeys(s.name for s in group)
            size, aliases = max(s.size for s in group), tuple(others)
            local = group[0].local
        size = size or _inferred_size(image, address, addresses)
        offset = image.offset(address)
        functions.append(Function(name, address, size, offset, aliases, local=local))
    return functions


def _rank(symbol: _Symbol) -> tuple[bool, bool, int, int, str]:
    """Global before local, default version before others, then the plainest name."""
    name = symbol.name
    underscores = len(name) - len(name.lstrip("_"))
    return symbol.local, "@" in name, underscores, len(name), name


def _inferred_size(image: Image, address: int, addresses: list[int]) -> int:
    """Up to the next function or the end of the section; 0 without either."""
    following = bisect_left(addresses, address + 1)
    ends = [addresses[following]] if following < len(addresses) else []
    ends += [
        s.address + s.size
        for s in image.sections
        if s.flags & SHF_EXECINSTR and s.address <= address < s.address + s.size
    ]
    return min(ends, default=address) - address
