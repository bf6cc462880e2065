"""A file with debug information, and the files that belong to it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from lbtrace.dwarf.reader.abbreviations import Abbreviation, Sizes, Table
from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.reader.entries import Entry, Unit
from lbtrace.dwarf.reader.headers import Header, headers
from lbtrace.elf.debug_sections import DwarfError, Section, Sections

INFO, TYPES = ".debug_info", ".debug_types"

HEADERS = {
    "DW_AT_str_offsets_base": 8,
    "DW_AT_addr_base": 8,
    "DW_AT_rnglists_base": 12,
    "DW_AT_loclists_base": 12,
}
"""Bytes of the headers of sections where offsets take four (DWARF 5, sections 7.26 to 7.29)."""


class File:
    """Debug information: the units of one file.

    ``number`` identifies it; ``partner`` finds the supplementary file (DWARF 5, section 7.3.6).
    """

    def __init__(
        self,
        sections: Sections,
        budget: Budget,
        number: int = 0,
        partner: Callable[[], File | None] = lambda: None,
    ) -> None:
        self.budget = budget
        self.sections = sections
        self._number = number
        self._partner = partner
        self._supplementary: File | None = None
        self._abbreviations: dict[tuple[Sizes, bytes], Abbreviation] = {}
        self._tables: dict[tuple[int, Sizes], Table] = {}
        self._units: dict[tuple[str, int], Unit] = {}
        self._headers: dict[str, list[Header]] = {}
        self._starts: list[int] | None = None
        self._types: dict[int, Header] | None = None
        self.definitions: dict[tuple[str, str], Entry | None] = {}
        """See `lbtrace.dwarf.definitions`."""

    def place(self, header: Header) -> int:
        """Return a number that makes the offsets of the unit's entries unique among all files."""
        space = 2 * self._number + (header.section == TYPES)
        return header.offset + (space << 48)

    def section(self, name: str) -> Section:
        """Return a section by the name it has where nothing is split."""
        return self.sections.get(name)

    def text(self, section: str, offset: int) -> bytes:
        """Return the string at ``offset`` of ``section``; ``sup`` is the supplementary file's."""
        if section != "sup":
            return self.section(section).string(offset)
        return self.supplementary().section(".debug_str").string(offset)

    def supplementary(self) -> File:
        """Return the file that this one shares entries and strings with.

        Raises `DwarfError` if it is not there.
        """
        if self._supplementary is None:
            self._supplementary = self._partner()
        if self._supplementary is None:
            raise DwarfError("the file with what several have in common is missing")
        return self._supplementary

    def base(self, attribute: str, unit: Unit) -> int:
        """Return where a unit's part of a section begins by default: after the section's header."""
        if unit.version < 5:
            return 0
        return HEADERS.get(attribute, 0) + (8 if unit.offset_size == 8 else 0)

    @property
    def has_indexes(self) -> bool:
        """Whether entries may number their strings."""
        return self.section(".debug_str_offsets").size > 0

    def table(self, header: Header) -> Table:
        """Return the abbreviations of a unit."""
        sizes = Sizes(header.address_size, header.offset_size, header.version)
        key = (header.abbreviations, sizes)
        if key not in self._tables:
            section = self.section(".debug_abbrev")
            self._tables[key] = Table(
                section, header.abbreviations, sizes, self.budget, self._abbreviations
            )
        return self._tables[key]

    def headers(self, section: str = INFO) -> list[Header]:
        """Return the units of ``section``, in order."""
        if section not in self._headers:
            self._headers[section] = list(headers(section, self.section(section), self.budget))
        return self._headers[section]

    def unit(self, header: Header) -> Unit:
        """Return the unit of ``header``."""
        key = (header.section, header.offset)
        if key not in self._units:
            self._units[key] = Unit(self, header)
        return self._units[key]

    def unit_at(self, offset: int) -> Unit:
        """Return the unit whose header is at ``offset``, as an index has it. Raises `DwarfError` if
        there is none."""
        first = next(headers(INFO, self.section(INFO), self.budget, offset), None)
        if first is None or first.offset != offset:
            raise DwarfError(f"no unit at {offset:#x}")
        return self.unit(first)

    def entry(self, offset: int) -> Entry:
        """Return the entry at ``offset`` of ``.debug_info``. Raises `DwarfError` if there is
        none."""
        if self._starts is None:
            self._starts = [header.offset for header in self.headers()]
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            raise DwarfError(f"no unit at {offset:#x}")
        header = self.headers()[at]
        return self.unit(header).at(offset - header.offset)

    def type_of(self, signature: int) -> Entry:
        """Return the type of a type unit. Raises `DwarfError` if there is none."""
        if self._types is None:
            self._types = {
                header.identity: header
                for name in (TYPES, INFO)
                for header in self.headers(name)
                if header.is_type
            }
        header = self._types.get(signature)
        if header is None:
            raise DwarfError(f"no type {signature:016x}")
        return self.unit(header).at(header.type)
