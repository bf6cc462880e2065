"""Finds the unit that holds the code at an address.

Units are indexed by their headers and the address ranges in their root entries; nothing else in
them is read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from lbtrace.dwarf.reader.address_table import listed_units
from lbtrace.dwarf.reader.bounds import BudgetExceeded
from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.files import File
from lbtrace.dwarf.reader.lists import ranges
from lbtrace.elf.debug_sections import DwarfError

WORTHWHILE = 8 << 20
"""The index of more bytes of debug information, perhaps packed, is cached."""


FEW = 64
"""Functions that are looked for without an index, where there is a table of addresses."""

UNIT = 16
"""What indexing a unit costs, in units of `Budget`."""


class Index:
    """Ranges of addresses in order, each with the offset of its unit."""

    def __init__(self, lows: array[int], highs: array[int], units: array[int]) -> None:
        self.lows = lows
        self.highs = highs
        self.units = units

    def unit_of(self, address: int) -> int | None:
        """Return the offset of the unit that holds ``address``."""
        at = bisect_right(self.lows, address) - 1
        return self.units[at] if at >= 0 and address < self.highs[at] else None

    def units_at(self, address: int) -> list[int]:
        """Return the offsets of all units with code that begins where that of the function at
        ``address`` does, which a linker made one of several."""
        at = bisect_right(self.lows, address) - 1
        found: dict[int, None] = {}
        while at >= 0 and self.lows[at] == address:
            found[self.units[at]] = None
            at -= 1
        return list(found)

    def packed(self) -> bytes:
        """Return the index as bytes for the cache."""
        return b"".join(column.tobytes() for column in (self.lows, self.highs, self.units))

    @classmethod
    def unpacked(cls, raw: bytes) -> Index:
        """Return the index from bytes that `packed` made."""
        size = len(raw) // 3
        columns = [array("Q", raw[start : start + size]) for start in (0, size, 2 * size)]
        return cls(*columns)


def find_units(file: File, addresses: Sequence[int]) -> dict[int, int]:
    """Return the offset of the unit of ``file`` that holds each of ``addresses``, which are in
    order, as far as there is one. Units that are damaged are left out.

    Raises `BudgetExceeded` where there are too many.
    """
    kept = _kept(file)
    if kept is None and len(addresses) <= FEW:
        listed = listed_units(file, addresses)
        if all(at in listed and _holds(file, listed[at], at) for at in addresses):
            return {address: listed[address] for address in addresses}
    index = kept or _stored(file)
    found = {address: index.unit_of(address) for address in addresses}
    return {address: unit for address, unit in found.items() if unit is not None}


def find_all_units(file: File, address: int) -> list[int]:
    """Return the offsets of all units that say that a function of theirs begins at ``address``.
    Raises `BudgetExceeded` where there are too many."""
    return (_kept(file) or _stored(file)).units_at(address)


def _kept(file: File) -> Index | None:
    cache = file.sections.cache if file.sections.size(".debug_info") >= WORTHWHILE else None
    kept = cache.load(".index") if cache else None
    return Index.unpacked(kept.data[kept.start :]) if kept else None


def _stored(file: File) -> Index:
    index = _made(file)
    cache = file.sections.cache
    if cache and file.sections.size(".debug_info") >= WORTHWHILE:
        cache.store(".index", [index.packed()])
    return index


def _holds(file: File, unit: int, address: int) -> bool:
    """Whether the entry of the unit at the offset ``unit`` says that it holds ``address``."""
    try:
        return any(low <= address < high for low, high in _code(file.unit_at(unit)))
    except BudgetExceeded:
        raise
    except (DwarfError, IndexError, TypeError):  # damaged
        return False


def _made(file: File) -> Index:
    rows: list[tuple[int, int, int]] = []
    for header in file.headers():
        if header.is_type:
            continue
        file.budget.spend(UNIT)
        try:
            unit = Unit(file, header, whole=False)
            rows += [(low, high, header.offset) for low, high in _code(unit)]
        except BudgetExceeded:
            raise
        except (DwarfError, IndexError, TypeError):  # damaged
            continue
    rows.sort()
    return Index(
        array("Q", [low for low, _, _ in rows]),
        array("Q", [high for _, high, _ in rows]),
        array("Q", [unit for _, _, unit in rows]),
    )


def _code(unit: Unit) -> Iterator[tuple[int, int]]:
    return ((low, high) for low, high in ranges(unit.root) if low < high < 1 << 64)
