"""The table of which unit holds which addresses, ``.debug_aranges`` (DWARF 5, 6.1.2).

Compilers may leave it out, in whole or for some units: what it says is checked against the
unit, and what it does not say is looked for in all units.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct as Layout
from struct import error as LayoutError

from lbtrace.dwarf.reader.files import File

SECTION = ".debug_aranges"
SETS = {4: Layout("<IHIBB"), 8: Layout("<xxxxQHQBB")}
"""By the size of an offset: length, version, offset of the unit, sizes of an address and of a
segment."""

ROW = Layout("<QQ")
ADDRESS_SIZE = 8
VERSION = 2


def listed_units(file: File, addresses: Sequence[int]) -> dict[int, int]:
    """Return the offsets of the units that are said to hold ``addresses``, which are in order.

    Raises `BudgetExceeded` where the table is too long.
    """
    section = file.section(SECTION)
    raw, at = section.cut(0, section.size), 0
    found: dict[int, int] = {}
    try:
        while at + SETS[4].size <= len(raw):
            wide = 8 if raw[at : at + 4] == b"\xff\xff\xff\xff" else 4
            length, version, unit, size, segments = SETS[wide].unpack_from(raw, at)
            end = at + (4 if wide == 4 else 12) + length
            rows = at + -(-SETS[wide].size // ROW.size) * ROW.size
            file.budget.spend(4 + length // ROW.size)
            if end > len(raw) or end <= at:
                break
            if version == VERSION and (size, segments) == (ADDRESS_SIZE, 0):
                _take(raw[rows : end - (end - rows) % ROW.size], unit, addresses, found)
            at = end
    except LayoutError:
        pass
    return found


def _take(rows: bytes, unit: int, addresses: Sequence[int], found: dict[int, int]) -> None:
    """Note which of ``addresses`` lie in the ranges of one unit."""
    for low, size in ROW.iter_unpack(rows):
        for address in addresses[bisect_left(addresses, low) :]:
            if address >= low + size:
                break
            found.setdefault(address, unit)
