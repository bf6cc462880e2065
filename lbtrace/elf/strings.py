"""Reads names from string tables (gabi, chapter 4) with bounds: in a hostile file any number of
symbols may share one string of any length, or parts of it.

Linkers share ends of names; that makes all names together longer than their table, but
never twice as long.
"""

from __future__ import annotations

import mmap
from typing import TypeAlias

Buffer: TypeAlias = "bytes | mmap.mmap"

LONGEST = 16 << 10
"""Bytes of a name that are shown."""

CUT = "\N{HORIZONTAL ELLIPSIS}"
"""What stands for the rest of a name that is cut."""

SHARED, LEAST = 2, 1 << 20
"""All names of a table may take so many times its bytes, and at least so many bytes;"""

SHORT = 64
"""… once they are used up, each name may take this many."""


class StringTable:
    """The strings of one table, for one reader that takes each name once."""

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._left = SHARED * len(table) + LEAST

    def name(self, offset: int) -> str:
        """Return the name at ``offset``, cut where it is too long; ``""`` outside the table."""
        found = string(self._table, offset, LONGEST if self._left > 0 else SHORT)
        self._left -= len(found)
        return found


def string(data: Buffer, offset: int, longest: int = LONGEST, table: range | None = None) -> str:
    """Return the NUL-terminated string at ``offset`` of a string ``table`` in ``data``, by default
    all of it; ``""`` outside it.

    Of a longer one the first ``longest`` bytes, and `CUT`.
    """
    table = range(len(data)) if table is None else table
    at, last = table.start + offset, table.stop
    if at not in table:
        return ""
    end = data.find(b"\0", at, min(at + longest + 1, last))
    if end >= 0:
        return data[at:end].decode("utf-8", "backslashreplace")
    if at + longest >= last:  # the table ends before the string
        return ""
    return data[at : at + longest].decode("utf-8", "backslashreplace") + CUT
