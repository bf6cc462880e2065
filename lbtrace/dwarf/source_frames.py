"""The functions that are inlined where a frame is, and the lines of the source.

Source: DWARF 5, sections 3.3.8 and 6.2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from lbtrace.dwarf.inlined import Names
from lbtrace.dwarf.inlined_in_part import start_of
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.reader.entries import Entry
from lbtrace.dwarf.reader.line_tables import LineTable
from lbtrace.dwarf.reader.lists import entry_address
from lbtrace.dwarf.scopes import Scopes
from lbtrace.dwarf.sources import DAMAGE, UNKNOWN, Declared
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError


class SourceFrame(NamedTuple):
    """A function, ``name`` as in symbols, and the ``file`` and ``line`` where it is; empty and 0
    where they are unknown."""

    name: str
    file: str
    line: int


class SourceFrames:
    """Finds them in the debug information of an image; nothing where it has none."""

    def __init__(self, image: Image) -> None:
        self._lines: SourceLines | None = None
        with suppress(BinaryError):
            self._lines = SourceLines(image, 0)
        self._names = Names()
        self._units: dict[int, _Unit] = {}

    def at(self, address: int, *, entered: bool) -> list[SourceFrame]:
        """Return those of the instruction at ``address``, the innermost first; the last is of the
        function itself, whose name is empty. Where it stands at the instruction, as it does not
        where a call returns, inlined functions that begin there are not ``entered`` yet."""
        unit = self._unit_of(address)
        if unit is None:
            return [SourceFrame("", *UNKNOWN)]
        where, found = unit.rows.at(address), []
        try:
            for copy in _copies(unit.scopes, address) if unit.scopes else ():
                if entered or start_of(copy) != address:
                    found.append(SourceFrame(self._names.name(copy).symbol, *where))
                where = unit.rows.declared(_number(copy, "file"), _number(copy, "line"))
        except DAMAGE:  # the line may be of any of them
            return [SourceFrame("", *UNKNOWN)]
        return [*found, SourceFrame("", *where)]

    def _unit_of(self, address: int) -> _Unit | None:
        # To look one up costs more than to ask those that are known.
        for unit in self._units.values():
            function = unit.scopes.function(address) if unit.scopes else None
            if function and entry_address(function):  # one that a linker dropped begins at 0
                return unit
        if self._lines is None or (offset := self._lines.unit_of(address)) is None:
            return None
        if offset not in self._units:
            rows = _Rows(self._lines.table(offset))
            self._units[offset] = _Unit(rows, self._lines.scopes_of(offset))
        return self._units[offset]


class _Rows:
    """Which line each instruction of a unit is of."""

    def __init__(self, table: LineTable | None) -> None:
        self._files = table.files if table else ()
        found: dict[int, tuple[int, int, bool]] = {}
        with suppress(*DAMAGE):
            for address, file, line, statement, end, _ in table.rows() if table else ():
                # Of several rows of an address the last counts in which a statement begins.
                if end:
                    found.setdefault(address, (0, 0, False))
                elif statement or not found.get(address, (0, 0, False))[2]:
                    found[address] = file, line, statement
        self._addresses = sorted(found)
        self._rows = [found[address] for address in self._addresses]

    def at(self, address: int) -> Declared:
        """The line that an instruction is of."""
        row = bisect_right(self._addresses, address) - 1
        return self.declared(*self._rows[row][:2]) if row >= 0 else UNKNOWN

    def declared(self, file: int, line: int) -> Declared:
        """The file with a number in the line table, and a line of it."""
        return Declared(self._files[file], line) if line and file < len(self._files) else UNKNOWN


class _Unit(NamedTuple):
    rows: _Rows
    scopes: Scopes | None


def _copies(scopes: Scopes, address: int) -> Iterator[Entry]:
    """The functions that are inlined at ``address``, the innermost first."""
    for block in reversed(scopes.path(address)):
        if block.tag == "DW_TAG_inlined_subroutine":
            yield block


def _number(copy: Entry, what: str) -> int:
    """The number of the file, or the line, in which a function was inlined."""
    name = f"DW_AT_call_{what}"
    value: Any = copy.get(name).value if copy.has(name) else 0
    return value if isinstance(value, int) else 0
