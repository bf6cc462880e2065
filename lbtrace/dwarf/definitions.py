"""The definition of a type that a unit only declares, in another unit: ``struct handle;``.

Names are looked for in the bytes of the sections first, so that only units that have them are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lbtrace.dwarf import attributes
from lbtrace.dwarf.enclosing import qualified_name
from lbtrace.dwarf.reader.bounds import BudgetExceeded
from lbtrace.dwarf.reader.entries import Entry, Unit
from lbtrace.dwarf.reader.files import INFO, File
from lbtrace.elf.debug_sections import DwarfError

OCCURRENCES = 64
"""Places of a name, or of what ends with it, that are looked at."""

INDEXED = 8 << 20
"""Bytes of units that are read whole, at most, as they number their strings (``DW_FORM_strx``)."""


def find_definition(declared: Entry) -> Entry | None:
    """Return the entry that defines the record or enumeration that ``declared`` is; None where
    there is none in its file, or several that differ. It is looked for once."""
    file = declared.unit.file
    name = attributes.text(declared, "DW_AT_name")
    if not name or not isinstance(file, File):
        return None
    key = declared.tag, qualified_name(declared)
    if key not in file.definitions:
        file.definitions[key] = None
        with suppress(DwarfError, BudgetExceeded):
            found = list(_definitions(file, *key, name.encode()))
            sizes = {attributes.size_of(each) for each in found}
            file.definitions[key] = found[0] if len(sizes) == 1 else None
    return file.definitions[key]


def _definitions(file: File, tag: str, qualified: str, name: bytes) -> Iterator[Entry]:
    for unit in units_with(file, name):
        for entry in unit.tagged(tag):
            if entry.has("DW_AT_declaration") or not entry.has("DW_AT_name"):
                continue
            if entry.get("DW_AT_name").value == name and qualified_name(entry) == qualified:
                yield entry


def units_with(file: File, name: bytes) -> Iterator[Unit]:
    """Yield the units that may have an entry of this name, or of one that ends so."""
    info = file.section(INFO)
    ended = name + b"\0"
    offsets = file.section(".debug_str").find(ended, OCCURRENCES)
    needles = [ended, *(at.to_bytes(4, "little") for at in offsets)]
    hits = sorted({at for needle in needles for at in info.find(needle, 1000)})
    left = INDEXED
    for header in file.headers():
        size = header.end - header.offset
        indexed = header.version >= 5 and size <= left and file.has_indexes
        left -= size if indexed else 0
        if indexed or any(header.offset < at < header.end for at in hits):
            yield file.unit(header)
