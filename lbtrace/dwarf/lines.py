"""The lines of source files: where their code is, and which variables are in scope there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.bounds import Budget, BudgetExceeded
from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.files import INFO
from lbtrace.dwarf.reader.index import find_units
from lbtrace.dwarf.reader.line_tables import LineTable, Row, line_table
from lbtrace.dwarf.scopes import FrameBases, Scopes, Variable
from lbtrace.dwarf.sources import DAMAGE, MOST, PathTest, open_debug_information, units_with_code
from lbtrace.elf.image import Image
from lbtrace.machine import Machine

LAST = 1 << 31
"""A line that no file has."""

LONGEST_JUMP = 8
"""Bytes of a run that may be a jump alone."""


class Place(NamedTuple):
    """An ``address`` at which the code of a ``line`` of the file at ``path`` begins; its unit is at
    the offset ``unit``. ``view`` counts lines that begin there before it, -1 where it is not the
    line's first address (`lbtrace.dwarf.location_views`)."""

    path: str
    line: int
    address: int
    unit: int
    view: int = -1


class _Run(NamedTuple):
    """Rows of one line, one after the other: the addresses and views of those at which statements
    begin, and the ``end`` of the code."""

    file: int
    line: int
    rows: tuple[tuple[int, int], ...]
    end: int

    @property
    def start(self) -> int:
        """The address of the first row."""
        return self.rows[0][0]


class _UnitLines:
    """The line table of the unit at an offset, read once."""

    def __init__(self, offset: int, table: LineTable) -> None:
        self.offset = offset
        self.table = table

    def meant(self, wanted: PathTest) -> set[int]:
        """The numbers of the files that are ``wanted``."""
        return {number for number, path in enumerate(self.table.files) if wanted(path)}

    @cached_property
    def rows(self) -> list[Row]:
        """Those at which statements begin."""
        return [row for row in self.table.rows() if row.is_statement and not row.end]

    @cached_property
    def runs(self) -> list[_Run]:
        """The runs of all lines."""
        found: list[_Run] = []
        rows: list[tuple[int, int]] = []
        number = line = view = 0
        before = left = -1
        for row in self.table.rows():
            view = view + 1 if row.address == before else 0
            before = -1 if row.end else row.address
            other = row.end or (row.file, row.line) != (number, line)
            if other and left < 0:
                left = row.address
            if not (row.is_statement or row.end):
                continue
            if other:
                if rows:
                    found.append(_Run(number, line, tuple(rows), left))
                number, line, rows = row.file, row.line, []
            left = -1
            if not row.end:
                rows.append((row.address, view))
        return found

    @cached_property
    def bodies(self) -> list[int]:
        """The addresses at which the table says that prologues have ended, in order."""
        return sorted({row.address for row in self.rows if row.after_prologue})

    @cached_property
    def starts(self) -> list[int]:
        """The addresses of the rows, in order."""
        return sorted({row.address for row in self.rows})


class SourceLines:
    """The lines of an image. Raises `BinaryError` where it has no debug information.

    ``paths`` are all source files, once lines have been looked for.
    """

    def __init__(
        self, image: Image, depth: int, *, qualified: bool = False, full_names: bool = False
    ) -> None:
        budget = Budget(MOST)
        self._image = image
        self._depth, self._qualified, self._full_names = depth, qualified, full_names
        self._file, self._companions = open_debug_information(image, budget)
        self._scopes: dict[int, Scopes | None] = {}
        self._frames: FrameBases | None = None
        self._units: list[_UnitLines] | None = None
        self.paths: set[str] = set()

    def places(self, wanted: PathTest, first: int = 1, last: int = LAST) -> list[Place]:
        """Where the program comes to the lines from ``first`` to ``last`` of the files that are
        ``wanted``: one place for each run of rows of the line, in each block of variables. By line
        and address."""
        found: dict[tuple[str, int, int, int], Place] = {}
        with suppress(BudgetExceeded):
            for unit in self._tables():
                with suppress(*DAMAGE):
                    for place in self._of_unit(unit, wanted, range(first, last + 1)):
                        found.setdefault(place[:4], place)
        return sorted(found.values())

    def numbers(self, wanted: PathTest) -> set[int]:
        """The lines of the files that are ``wanted`` that have code."""
        found: set[int] = set()
        for unit in self._tables():
            meant = unit.meant(wanted)
            with suppress(*DAMAGE):
                found |= {row.line for row in (unit.rows if meant else ()) if row.file in meant}
        return found

    def _tables(self) -> list[_UnitLines]:
        if self._units is None:
            self._units = list(self._read_units())
        return self._units

    def _read_units(self) -> Iterator[_UnitLines]:
        for unit in units_with_code(self._file):
            with suppress(*DAMAGE):
                if table := line_table(unit):
                    self.paths.update(table.files)
                    yield _UnitLines(unit.offset, table)

    def _of_unit(self, unit: _UnitLines, wanted: PathTest, lines: range) -> Iterator[Place]:
        meant = unit.meant(wanted)
        if not meant:
            return
        scopes = self.scopes_of(unit.offset)
        runs = [each for each in unit.runs if each.file in meant and each.line in lines]
        starts = {(each.file, each.line, each.start) for each in runs}
        for run in runs:
            if (run.file, run.line, self._jump_of(run)) in starts:
                continue  # where the other run begins, the program comes to the line
            blocks: set[int] = set()
            for address, view in run.rows:
                block = _block(scopes, address)
                if block in blocks:
                    continue
                blocks.add(block)
                after = _after_prologue(scopes, address, unit)
                path, own = unit.table.files[run.file], view if after == address else -1
                yield Place(path, run.line, after, unit.offset, own)

    def _jump_of(self, run: _Run) -> int | None:
        """Where a jump leads that is all the code of a run; None if it is something else."""
        size = run.end - run.start
        if not 0 < size <= LONGEST_JUMP:
            return None
        code = self._image.code(run.start, size)
        targets = [*Machine(self._image.machine).jump_patterns.reached(code, run.start)]
        return targets[0] if len(targets) == 1 and targets[0] != run.start else None

    def units(self) -> Iterator[Unit]:
        """The units with code, as far as they can be read."""
        with suppress(BudgetExceeded):
            for unit in units_with_code(self._file):
                with suppress(*DAMAGE):
                    yield self._companions.whole(self._file.unit_at(unit.offset))

    def may_name(self, word: str) -> bool:
        """Return whether a name in the debug information may hold ``word``: one of another file
        may."""
        elsewhere = (".debug_addr", ".gnu_debugaltlink", ".debug_sup")
        if any(self._file.section(name).size for name in elsewhere):
            return True
        strings = (self._file.section(name) for name in (".debug_str", INFO))
        return any(each.find(word.encode(), 1) for each in strings)

    def unit_of(self, address: int) -> int | None:
        """The offset of the unit with the code at ``address``."""
        try:
            return find_units(self._file, [address]).get(address)
        except DAMAGE:
            return None

    def variables(self, unit: int, address: int, view: int = -1) -> list[Variable]:
        """The variables in scope at ``address``, innermost first. ``view`` is the one at which a
        line begins there, -1 if it is not known."""
        scopes = self.scopes_of(unit)
        if scopes is None:
            return []
        try:
            return scopes.variables(address, view)
        except DAMAGE:
            return []

    def function(self, unit: int, address: int) -> str:
        """The name of the function, inlined or not, with the code at ``address``."""
        scopes = self.scopes_of(unit)
        with suppress(*DAMAGE):
            return scopes.title(address) if scopes else ""
        return ""

    def table(self, offset: int) -> LineTable | None:
        """The line table of the unit at ``offset``."""
        with suppress(*DAMAGE):
            return line_table(self._file.unit_at(offset))
        return None

    def scopes_of(self, offset: int) -> Scopes | None:
        """What is in scope in the unit at ``offset``."""
        if offset not in self._scopes:
            self._scopes[offset] = None
            with suppress(*DAMAGE):
                unit = self._companions.whole(self._file.unit_at(offset))
                types = Types(
                    unit.root,
                    self._depth,
                    self._image.machine,
                    qualified=self._qualified,
                    full_names=self._full_names,
                )
                self._scopes[offset] = Scopes(unit, types, self._frame_bases())
        return self._scopes[offset]

    def _frame_bases(self) -> FrameBases:
        if self._frames is None:
            section = self._file.section(".debug_frame")
            raw = section.cut(0, section.size) if section.size else b""
            self._frames = FrameBases(self._image, raw)
        return self._frames


def _block(scopes: Scopes | None, address: int) -> int:
    """The number of the innermost block with the code at ``address``."""
    path = scopes.path(address) if scopes else []
    return path[-1].offset if path else -1


def _after_prologue(scopes: Scopes | None, address: int, unit: _UnitLines) -> int:
    """``address``, or where the function that begins there has stored its parameters: where its
    line table says so, as those of LLVM and Go do, else in unoptimised code at the second row."""
    function = scopes.function(address) if scopes else None
    if function is None or lists.entry_address(function) != address:
        return address
    ranges = [(low, high) for low, high in lists.ranges(function) if low <= address < high]
    if body := _next(unit.bodies, address - 1, ranges):
        return body
    if scopes is not None and scopes.is_optimised(function):
        return address
    return _next(unit.starts, address, ranges) or address


def _next(addresses: Sequence[int], after: int, ranges: Iterable[tuple[int, int]]) -> int:
    """The first of ``addresses`` after one, 0 where that is in none of ``ranges``."""
    at = bisect_right(addresses, after)
    if at == len(addresses) or not any(low <= addresses[at] < high for low, high in ranges):
        return 0
    return addresses[at]
