"""Which unit holds the code at an address.

Units are found by their headers and what their own entries tell of their
code; nothing else in them is looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from lbtrace.elf.debuginfo.bounds import DwarfError, Exhausted
from lbtrace.elf.debuginfo.entries import Unit
from lbtrace.elf.debuginfo.files import File
from lbtrace.elf.debuginfo.lists import ranges

WORTHWHILE = 8 << 20
"""Bytes of debug information, perhaps packed, that are not indexed anew each time."""


class Index:
    """Ranges of addresses in order, each with the offset of its unit."""

    def __init__(self, lows: array[int], highs: array[int], units: array[int]) -> None:
        self.lows = lows
        self.highs = highs
        self.units = units

    def unit_of(self, address: int) -> int | None:
        """The offset of the unit that holds ``address``."""
        at = bisect_right(self.lows, address) - 1
        return self.units[at] if at >= 0 and address < self.highs[at] else None

    def packed(self) -> bytes:
        """As it is kept in a cache."""
        return b"".join(column.tobytes() for column in (self.lows, self.highs, self.units))

    @classmethod
    def unpacked(cls, raw: bytes) -> Index:
        """What `packed` made."""
        size = len(raw) // 3
        columns = [array("Q", raw[start : start + size]) for start in (0, size, 2 * size)]
        return cls(*columns)


def index(file: File) -> Index:
    """The index of all units of ``file``. Units that are damaged are left out.

    Raises `Exhausted` where there are too many.
    """
    cache = file.sections.cache
    if cache is None or file.sections.size(".debug_info") < WORTHWHILE:
        return _made(file)
    if (kept := cache.load(".index")) is not None:
        return Index.unpacked(kept.data[kept.start :])
    made = _made(file)
    cache.store(".index", [made.packed()])
    return made


def _made(file: File) -> Index:
    rows: list[tuple[int, int, int]] = []
    for header in file.headers():
        if header.is_type:
            continue
        unit = Unit(file, header, whole=False)
        try:
            rows += [(low, high, header.offset) for low, high in _code(unit)]
        except Exhausted:
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
