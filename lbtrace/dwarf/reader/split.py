"""Split debug information: ``.dwo`` files, and ``.dwp`` packages of them.

Sources: DWARF 5, sections 3.1.3, 7.3.2 and 7.3.5; for DWARF 4 GNU's "DebugFission"
and "DebugFissionDWP".
"""

from __future__ import annotations

from msgspec import Struct

from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.reader.entries import Entry, Unit
from lbtrace.dwarf.reader.files import INFO, TYPES, File
from lbtrace.elf.debug_sections import EMPTY, DwarfError, Section, Sections

NAME = ("DW_AT_dwo_name", "DW_AT_GNU_dwo_name")

WHOLE = frozenset({".debug_str"})
"""What all units of a package share."""

DW_SECT = {
    2: {1: INFO, 2: TYPES, 3: ".debug_abbrev", 5: ".debug_loc", 6: ".debug_str_offsets"},
    5: {
        **{1: INFO, 3: ".debug_abbrev", 5: ".debug_loclists", 6: ".debug_str_offsets"},
        8: ".debug_rnglists",
    },
}
"""The columns of an index, by its version (section 7.3.5.3)."""


class Contribution(Struct, frozen=True):
    """A part of a section."""

    start: int
    size: int


class SplitFile(File):
    """The units of a ``.dwo`` file, or of one row of a package's index."""

    def __init__(
        self,
        sections: Sections,
        budget: Budget,
        number: int,
        parts: dict[str, Contribution] | None = None,
        package: Package | None = None,
    ) -> None:
        super().__init__(sections, budget, number)
        self._parts = parts
        self._package = package

    def section(self, name: str) -> Section:
        """Return a section by the name it has where nothing is split."""
        whole = self.sections.get(f"{name}.dwo")
        if self._parts is None or name in WHOLE:
            return whole
        part = self._parts.get(name)
        return EMPTY if part is None else whole.part(part.start, part.size)

    def type_of(self, signature: int) -> Entry:
        """Return the type of a type unit. Raises `DwarfError` if there is none."""
        if self._package is None:
            return super().type_of(signature)
        file = self._package.types(signature)
        return file.unlinked_type_of(signature)

    def unlinked_type_of(self, signature: int) -> Entry:
        """Return a type in this file itself."""
        return super().type_of(signature)


class Package:
    """A ``.dwp`` file."""

    def __init__(self, sections: Sections, budget: Budget, numbers: Numbers) -> None:
        self._sections = sections
        self._budget = budget
        self._numbers = numbers
        self._units = _index(sections.get(".debug_cu_index"))
        self._types = _index(sections.get(".debug_tu_index"))
        self._opened: dict[int, SplitFile] = {}

    def holds(self, identity: int) -> bool:
        """Return whether there is a unit of that identity."""
        return identity in self._units

    def unit(self, identity: int) -> SplitFile:
        """Return the file that holds the unit of that identity."""
        return self._file(identity, self._units[identity])

    def types(self, signature: int) -> SplitFile:
        """Return the file that holds the type of that signature. Raises `DwarfError` if none
        does."""
        if signature not in self._types:
            raise DwarfError(f"no type {signature:016x} in the package")
        return self._file(signature, self._types[signature])

    def _file(self, identity: int, parts: dict[str, Contribution]) -> SplitFile:
        if identity not in self._opened:
            number = self._numbers.next()
            self._opened[identity] = SplitFile(self._sections, self._budget, number, parts, self)
        return self._opened[identity]


class Numbers:
    """Hands out a distinct number for each file, never 0."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """Another number, never 0."""
        self._last += 1
        return self._last


def linked(file: File, skeleton: Unit, identity: int) -> Unit:
    """Return the unit of ``file`` that was split from ``skeleton``.

    Raises `DwarfError` if there is none.
    """
    for header in file.headers():
        if header.is_type:
            continue
        unit = file.unit(header)
        if identity_of(unit) == identity:
            unit.skeleton = skeleton
            return unit
    raise DwarfError("the file belongs to another build")


def identity_of(unit: Unit) -> int:
    """Return what a unit and its skeleton have in common."""
    if unit.version >= 5:
        return unit.header.identity
    root = unit.root
    return int(root.get("DW_AT_GNU_dwo_id").value) if root.has("DW_AT_GNU_dwo_id") else 0


def split_name(skeleton: Unit) -> str:
    """Return the name of the file that holds what was split off; empty if nothing was."""
    root = skeleton.root
    name = next((n for n in NAME if root.has(n)), None)
    return "" if name is None else root.get(name).value.decode("utf-8", "surrogateescape")


def _index(section: Section) -> dict[int, dict[str, Contribution]]:
    """The parts of each unit, by its identity."""
    if not section.size:
        return {}
    version = section.number(0, 2)
    columns, rows, slots = (section.number(at, 4) for at in (4, 8, 12))
    if version not in DW_SECT:
        raise DwarfError(f"a package's index of version {version}")
    if columns > 16 or 16 + 12 * slots + 4 * columns * (1 + 2 * rows) > section.size:
        raise DwarfError("a package's index reaches out of its section")
    table = 16 + 12 * slots
    names = [DW_SECT[version].get(section.number(table + 4 * n, 4), "") for n in range(columns)]
    starts = table + 4 * columns
    sizes = starts + 4 * columns * rows

    def parts(row: int) -> dict[str, Contribution]:
        at = 4 * columns * (row - 1)
        return {
            name: Contribution(
                section.number(starts + at + 4 * n, 4), section.number(sizes + at + 4 * n, 4)
            )
            for n, name in enumerate(names)
            if name
        }

    found: dict[int, dict[str, Contribution]] = {}
    for slot in range(slots):
        row = section.number(16 + 8 * slots + 4 * slot, 4)
        if 0 < row <= rows:
            found[section.number(16 + 8 * slot, 8)] = parts(row)
    return found
