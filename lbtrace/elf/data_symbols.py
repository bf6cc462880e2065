"""Addresses of objects by their names: what the operands of markers may name."""

from __future__ import annotations

from lbtrace.elf import debugfile
from lbtrace.elf.image import Image
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import SYMBOL
from lbtrace.elf.symbols import SHT_DYNSYM, SHT_SYMTAB

STT_NOTYPE, STT_OBJECT, STT_FUNC = 0, 1, 2
SHN_UNDEF, SHN_LORESERVE = 0, 0xFF00

OCCURRENCES = 1000
"""Places in the table of strings that are looked at: a name may be the end of others."""


def find_address(image: Image, name: str) -> int | None:
    """Return the address of the object or function ``name`` (gabi, chapter 4); None where there is
    none, or several."""
    found = {
        address
        for symbols, strings in image.once(_tables)
        for address in _addresses(symbols, strings, name)
    }
    return found.pop() if len(found) == 1 else None


def _tables(image: Image) -> list[tuple[Span, Span]]:
    sections = [s for s in image.sections if s.type in (SHT_SYMTAB, SHT_DYNSYM)]
    tables = [
        (image.span(section), image.span(image.sections[section.link]))
        for section in sections
        if section.link < len(image.sections)
    ]
    if not image.has_symbol_table:
        elsewhere = debugfile.symbol_table(image)
        tables.append((elsewhere.symbols, elsewhere.strings))
    return tables


def _addresses(symbols: Span, strings: Span, name: str) -> set[int]:
    places = set[int]()
    text, wanted = strings.bytes, name.encode() + b"\0"
    at = text.find(wanted)
    while at >= 0 and len(places) < OCCURRENCES:
        places.add(at)
        at = text.find(wanted, at + 1)
    if not places:
        return set()
    whole = symbols.size - symbols.size % SYMBOL.size
    return {
        value
        for at, info, _, section, value, _ in SYMBOL.iter_unpack(symbols.view[:whole])
        if at in places
        and info & 15 in (STT_NOTYPE, STT_OBJECT, STT_FUNC)
        and SHN_UNDEF < section < SHN_LORESERVE
    }
