"""Addresses of objects by their names: what the operands of markers may name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lbtrace.elf import debugfile
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import SYMBOL, SymbolSource, SymbolTable
from lbtrace.elf.symbols import SHT_DYNSYM, SHT_SYMTAB

STT_NOTYPE, STT_OBJECT, STT_FUNC = 0, 1, 2
KINDS = (STT_NOTYPE, STT_OBJECT, STT_FUNC)
SHN_UNDEF, SHN_LORESERVE = 0, 0xFF00

NAMES = 256
"""Names that are looked for in a file; others are unknown. Few markers pass an object by name."""

ALIKE = 1000
"""Symbols that are looked at for one name."""


def find_address(image: Image, name: str) -> int | None:
    """Return the address of the object or function ``name`` (gabi, chapter 4); None where there is
    none, or several."""
    known = image.once(_known)
    if name not in known and len(known) < NAMES:
        found = {
            address
            for source, table in image.once(_tables)
            for address in _addresses(source, table, name)
        }
        known[name] = found.pop() if len(found) == 1 else None
    return known.get(name)


class Object(NamedTuple):
    """A variable: where it is in the file, and its size."""

    address: int
    size: int


def find_objects(image: Image, name: str) -> list[Object]:
    """Return the variables called ``name``, one for each address."""
    found: dict[int, Object] = {}
    for source, table in image.once(_tables):
        for info, _, section, value, size in _named(source, table, name):
            if info & 15 == STT_OBJECT and SHN_UNDEF < section < SHN_LORESERVE:
                found.setdefault(value, Object(value, size))
    return list(found.values())


def preempted(image: Image, name: str) -> bool:
    """Return whether the loader may take another file's definition for ``name``, which this one
    defines and offers: gabi chapters 4 and 5."""
    if image.once(Dynamic).is_symbolic:
        return False
    offered = [s for s in image.sections if s.type == SHT_DYNSYM][:1]
    for section in offered:
        source = SymbolSource(image.span(section), image.span(image.sections[section.link]))
        for info, other, at, _, _ in _named(source, SymbolTable.of_every_symbol(source), name):
            if at != SHN_UNDEF and info >> 4 and not other & 3:
                return True
    return False


TABLE, HEAD, WORD = "_ZTV", 16, 8
"""How the names of tables of virtual functions begin, and how many bytes of each precede what
objects have the address of (Itanium C++ ABI, 2.5 and 5.1.4)."""


def find_tables(image: Image) -> list[tuple[int, int, str]]:
    """Return the tables of virtual functions of ``image``: the first and the last address that
    objects may have of each, and its name, in order. One that has several names is left out."""
    found: dict[tuple[int, int], set[str]] = {}
    for source, table in image.once(_tables):
        for position in table.holding(TABLE):
            at = source.symbols.start + position * SYMBOL.size
            _, info, _, section, value, size = SYMBOL.unpack_from(source.symbols.data, at)
            name = table.raw_name(position)
            is_object = info & 15 == STT_OBJECT and SHN_UNDEF < section < SHN_LORESERVE
            if is_object and size > HEAD and name.startswith(TABLE):
                found.setdefault((value + HEAD, value + size - WORD), set()).add(name.split("@")[0])
    single = ((ends, names.pop()) for ends, names in sorted(found.items()) if len(names) == 1)
    return [(first, last, name) for (first, last), name in single]


def _known(_image: Image) -> dict[str, int | None]:
    """The names that were looked for, with their addresses."""
    return {}


def _tables(image: Image) -> list[tuple[SymbolSource, SymbolTable]]:
    sections = [s for s in image.sections if s.type in (SHT_SYMTAB, SHT_DYNSYM)][:2]
    sources = [
        SymbolSource(image.span(section), image.span(image.sections[section.link]))
        for section in sections
        if section.link < len(image.sections)
    ]
    if not image.has_symbol_table:
        elsewhere = debugfile.symbol_table(image)
        sources.append(SymbolSource(elsewhere.symbols, elsewhere.strings))
    return [(source, SymbolTable.of_every_symbol(source)) for source in sources]


def _addresses(source: SymbolSource, table: SymbolTable, name: str) -> set[int]:
    """The values of the defined symbols of that name."""
    return {
        value
        for info, _, section, value, _ in _named(source, table, name)
        if info & 15 in KINDS and SHN_UNDEF < section < SHN_LORESERVE
    }


def _named(source: SymbolSource, table: SymbolTable, name: str) -> Iterator[tuple[int, ...]]:
    """The rows of the symbols of that name, without the name."""
    for position in islice(table.named(name), ALIKE):
        at = source.symbols.start + position * SYMBOL.size
        if table.raw_name(position).partition("@")[0] == name:
            yield SYMBOL.unpack_from(source.symbols.data, at)[1:]
