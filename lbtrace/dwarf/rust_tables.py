"""The tables of functions to which pointers to trait objects of Rust lead, by what rustc calls them
in debug information: ``<r::Dog as r::Speak>::{vtable}`` (since 1.57).

They are variables of units, too many of which are there to read all: their locations are looked for
in the bytes of the section, and only what is found is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lbtrace.dwarf.reader.bounds import Budget, BudgetExceeded
from lbtrace.dwarf.reader.files import INFO, File
from lbtrace.dwarf.sources import DAMAGE, MOST, open_debug_information
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError

END = b">::{vtable}"

ADDRESS = b"\x09\x03"
"""An expression of nine bytes, the first of which is DW_OP_addr."""

BEFORE = 8
"""Bytes before it: the offset of the name, and that of the type."""

CODES = (1, 2)
"""Bytes that the abbreviation's code may take."""


def find_tables(image: Image) -> dict[int, str]:
    """Return the type for which each table is, by address. One that several types share, as the
    compiler merges equal ones, is left out."""
    found: dict[int, set[str]] = {}
    with suppress(BinaryError, BudgetExceeded, *DAMAGE):
        for address, name in _described(open_debug_information(image, Budget(MOST))[0]):
            found.setdefault(address, set()).add(_type_in(name))
    return {at: next(iter(types)) for at, types in found.items() if len(types) == 1}


def _described(file: File) -> Iterator[tuple[int, str]]:
    info, texts = file.section(INFO), file.section(".debug_str")
    for at in info.find(ADDRESS, info.size):
        place = info.cut(at + 1, at + 10)
        if not at >= BEFORE + max(CODES) or not place.endswith(b"\0\0") or not any(place[1:]):
            continue
        named = info.number(at - BEFORE, 4)
        name = texts.string(named) if named < texts.size else b""
        if name.endswith(END) and any(_is_entry(file, at, length, place, name) for length in CODES):
            yield int.from_bytes(place[1:], "little"), name.decode(errors="replace")


def _is_entry(file: File, at: int, length: int, place: bytes, name: bytes) -> bool:
    """Whether these bytes are the location of a variable, and the others its name."""
    with suppress(*DAMAGE):
        entry = file.entry(at - BEFORE - length)
        held = bytes(entry.get("DW_AT_location").value), entry.get("DW_AT_name").value
        return entry.tag == "DW_TAG_variable" and held == (place, name)
    return False


def _type_in(name: str) -> str:
    """``r::Dog`` of ``<r::Dog as r::Speak>::{vtable}``."""
    depth = 0
    for at, character in enumerate(name):
        if character == ">" and name[at - 1] == "-":  # of a result
            continue
        depth += (character in "<([{") - (character in ">)]}")
        if depth == 1 and name.startswith(" as ", at):
            return name[1:at]
    return name
