"""Symbol tables read the simple way, one symbol after the other: what lbtrace's columns have to
give as well."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from lbtrace.elf.strings import StringTable
from lbtrace.elf.symbol_table import SYMBOL, VERSION_HIDDEN, SymbolSource

NOTYPE, FUNC, IFUNC = 0, 2, 10
UNDEFINED, RESERVED, EXTENDED = 0, 0xFF00, 0xFFFF
COLD = re.compile(r"\.cold(\.[0-9]+)?$")


class Symbol(NamedTuple):
    address: int
    size: int
    kind: int
    local: bool
    name: str


class Read(NamedTuple):
    """Functions and cold parts: address, size, names and whether they are local; choosers."""

    functions: list[tuple[int, int, tuple[str, ...], bool]]
    cold: list[tuple[int, int, tuple[str, ...], bool]]
    ifuncs: list[tuple[int, str]]
    versions: dict[str, str]
    starts: list[int]


def read(sources: list[SymbolSource], code: list[int], stubs: list[int], ends: list[int]) -> Read:
    versions: dict[str, str] = {}
    symbols = [symbol for source in sources for symbol in _symbols(source, versions)]
    inside = [s for s in symbols if _holds(code, s.address) and not _holds(stubs, s.address)]
    cold = [s for s in inside if COLD.search(s.name)]
    functions = [s for s in inside if s.kind == FUNC and not COLD.search(s.name)]
    starts = sorted({s.address for s in (*functions, *cold)})
    return Read(
        _fold(functions, starts, ends),
        _fold(cold, starts, ends),
        [(s.address, s.name) for s in inside if s.kind == IFUNC],
        versions,
        sorted({s.address for s in inside}),
    )


def _symbols(source: SymbolSource, versions: dict[str, str]):
    names, data = StringTable(source.strings.bytes), source.symbols.bytes
    words = source.words.bytes
    rows = SYMBOL.iter_unpack(data[: len(data) // SYMBOL.size * SYMBOL.size])
    for row, (offset, info, _, index, value, size) in enumerate(rows):
        if info & 15 not in (NOTYPE, FUNC, IFUNC) or not value or index == UNDEFINED:
            continue
        if RESERVED <= index < EXTENDED:
            continue
        name = names.name(offset)
        if not name:
            continue
        word = int.from_bytes(words[2 * row : 2 * row + 2], "little") if source.versions else 0
        version = source.versions.get(word & ~VERSION_HIDDEN, "")
        if version and 2 * row + 2 <= len(words):
            name += f"{'@' if word & VERSION_HIDDEN else '@@'}{version}"
        at = name.find("@", 1)
        if at > 0 and name.startswith("@@", at):
            versions[name[:at]] = name[at + 2 :]
            name = name[:at]
        yield Symbol(value, size, info & 15, info >> 4 == 0, name)


def _holds(bounds: list[int], address: int) -> bool:
    return bool(bisect_right(bounds, address) & 1)


def _fold(symbols: list[Symbol], starts: list[int], ends: list[int]):
    groups: dict[int, list[Symbol]] = {}
    for symbol in symbols:
        groups.setdefault(symbol.address, []).append(symbol)
    found = []
    for address, group in sorted(groups.items()):
        group.sort(key=_rank)
        names = tuple(dict.fromkeys(s.name for s in group))
        size = max(s.size for s in group)
        if not size:
            after, section = bisect_right(starts, address), bisect_right(ends, address)
            following = starts[after : after + 1] + ends[section : section + 1] * (section & 1)
            size = min(following, default=address) - address
        found.append((address, size, names, group[0].local))
    return found


def _rank(symbol: Symbol) -> tuple[bool, bool, int, int, str]:
    name = symbol.name
    underscores = len(name) - len(name.lstrip("_"))
    return symbol.local, "@" in name, underscores, len(name), name
