"""Walks the headers of units without reading the units.

Source: DWARF 5, sections 7.4 and 7.5.1; DWARF 4 for ``.debug_types``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.elf.debug_sections import DwarfError, Section

DW_UT_TYPE, DW_UT_SKELETON, DW_UT_SPLIT_COMPILE, DW_UT_SPLIT_TYPE = 2, 4, 5, 6
LONGEST = 48
"""Bytes of the longest header."""


class Header(Struct, frozen=True):
    """A unit: from ``offset`` to ``end`` of ``section``.

    ``first`` is the position of its first entry in it. ``identity`` is the
    signature of a type unit, whose type is at the position ``type``, or the
    identity of a split unit; 0 for others.
    """

    section: str
    offset: int
    end: int
    version: int
    offset_size: int
    address_size: int
    abbreviations: int
    first: int
    identity: int = 0
    type: int = 0

    @property
    def is_type(self) -> bool:
        """Whether this is a type unit."""
        return self.type > 0


def headers(name: str, section: Section, budget: Budget, start: int = 0) -> Iterator[Header]:
    """Yield the units of ``section``, whose name is ``name``, up to the first damaged header."""
    offset = start
    while offset < section.size:
        budget.spend(5)
        try:
            found, offset = _header(name, section, offset)
        except DwarfError:
            return
        if found is not None:
            yield found


def _header(name: str, section: Section, offset: int) -> tuple[Header | None, int]:
    """The unit at ``offset``, None if its version is unknown, and where the next one begins."""
    raw = section.cut(offset, offset + LONGEST)
    length, at, wide = int.from_bytes(raw[:4], "little"), 4, 4
    if length == 0xFFFFFFFF:
        length, at, wide = int.from_bytes(raw[4:12], "little"), 12, 8
    elif length >= 0xFFFFFFF0:
        raise DwarfError("a length that is reserved")
    end = offset + at + length
    if len(raw) < at + 8 or length < 8 or end > section.size:
        raise DwarfError("a unit reaches out of its section")
    version, at = int.from_bytes(raw[at : at + 2], "little"), at + 2
    if not 2 <= version <= 5:
        return None, end
    kind = 0
    if version >= 5:
        kind, address_size, at = raw[at], raw[at + 1], at + 2
        abbreviations, at = int.from_bytes(raw[at : at + wide], "little"), at + wide
    else:
        abbreviations, at = int.from_bytes(raw[at : at + wide], "little"), at + wide
        address_size, at = raw[at], at + 1
    if address_size not in (4, 8):
        return None, end
    identity = type = 0
    typed = kind in (DW_UT_TYPE, DW_UT_SPLIT_TYPE) or name == ".debug_types"
    if typed or kind in (DW_UT_SKELETON, DW_UT_SPLIT_COMPILE):
        identity, at = int.from_bytes(raw[at : at + 8], "little"), at + 8
    if typed:
        type, at = int.from_bytes(raw[at : at + wide], "little"), at + wide
    if offset + at >= end:
        return None, end
    return (
        Header(name, offset, end, version, wide, address_size, abbreviations, at, identity, type),
        end,
    )
