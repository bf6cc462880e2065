"""Addresses of objects by their names: what the operands of markers may name."""

from __future__ import annotations

from itertools import islice

from lbtrace.elf import debugfile
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
    found = set[int]()
    for position in islice(table.named(name), ALIKE):
        at = source.symbols.start + position * SYMBOL.size
        _, info, _, section, value, _ = SYMBOL.unpack_from(source.symbols.data, at)
        is_data = info & 15 in KINDS and SHN_UNDEF < section < SHN_LORESERVE
        if is_data and table.raw_name(position) == name:
            found.add(value)
    return found
