"""Where the frame of a call begins, at an instruction of it: the canonical frame address (CFA).

pyelftools reads the description of a frame (DWARF 5, section 6.4). Which one that is, the table in
``.eh_frame_hdr`` says; ``.debug_frame`` has none: where each of its descriptions begins and what
code it is of is read here.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from io import BytesIO
from struct import Struct as Layout
from typing import Any, NamedTuple

from elftools.dwarf.callframe import CallFrameInfo
from elftools.dwarf.structs import DWARFStructs

from lbtrace.elf.debug_sections import DwarfError

DESCRIPTION = Layout("<IIQQ")
"""Of ``.debug_frame``: a length, where its CIE is, where the code begins, and its size."""

NO_CODE, LENGTH = 0xFFFFFFFF, 4
"""What a CIE has in the second place; bytes of the first one, which it does not count."""

ADVANCE, REMEMBER, RECALL = (0x40, 0x02, 0x03, 0x04), 0x0A, 0x0B
DEF_CFA, DEF_CFA_REGISTER, DEF_CFA_OFFSET, DEF_CFA_EXPRESSION = 0x0C, 0x0D, 0x0E, 0x0F
DEF_CFA_SF, DEF_CFA_OFFSET_SF = 0x12, 0x13


class Cfa(NamedTuple):
    """The canonical frame address: ``offset`` from a register with this DWARF number. -1: it is
    computed otherwise."""

    register: int = -1
    offset: int = 0


class Frames:
    """The frame descriptions of a section: ``.eh_frame``, which lies at ``address``, or
    ``.debug_frame``, where that is None."""

    def __init__(self, raw: bytes, address: int | None = None) -> None:
        self._raw = raw
        how: Any = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
        is_loaded = address is not None
        self._descriptions: Any = CallFrameInfo(
            BytesIO(raw), len(raw), address or 0, how, for_eh_frame=is_loaded
        )

    def find(self, pc: int, at: int | None = None) -> Cfa | None:
        """The CFA when the program is at ``pc``; the description is at position ``at``, if that is
        known. None where none describes it. Raises `DwarfError` where it is damaged."""
        at = self._position(pc) if at is None else at
        if at is None:
            return None
        try:
            return _carry_out(self._descriptions._parse_entry_at(at), pc)
        except Exception as error:  # damaged sections raise nearly anything inside pyelftools
            raise DwarfError(f"a frame description is damaged: {error}") from None

    def _position(self, pc: int) -> int | None:
        """Where in ``.debug_frame`` the code at ``pc`` is described."""
        number = bisect_right(self._sorted, (pc, len(self._raw))) - 1
        _, at = self._sorted[number] if number >= 0 else (0, 0)
        if number < 0:
            return None
        _, _, start, size = DESCRIPTION.unpack_from(self._raw, at)
        return at if pc < start + size else None

    @cached_property
    def _sorted(self) -> list[tuple[int, int]]:
        """Where code begins that ``.debug_frame`` describes, and where it does."""
        found: list[tuple[int, int]] = []
        at = 0
        while at + DESCRIPTION.size <= len(self._raw):
            length, common, start, _ = DESCRIPTION.unpack_from(self._raw, at)
            if length and common != NO_CODE:
                found.append((start, at))
            at += LENGTH + length
        return sorted(found)


def _carry_out(description: Any, pc: int) -> Cfa:
    """The CFA at ``pc`` of the code that ``description`` is of."""
    code, data = description.cie["code_alignment_factor"], description.cie["data_alignment_factor"]
    cfa, address, kept = Cfa(), description["initial_location"], list[Cfa]()
    for instruction in (*description.cie.instructions, *description.instructions):
        what, given = int(instruction.opcode), instruction.args
        if what in ADVANCE:
            address += given[0] * code
            if address > pc:
                break
        elif what == REMEMBER:
            kept.append(cfa)
        elif what == RECALL:
            cfa = kept.pop()
        elif what in (DEF_CFA, DEF_CFA_SF):
            cfa = Cfa(given[0], given[1] * (data if what == DEF_CFA_SF else 1))
        elif what in (DEF_CFA_OFFSET, DEF_CFA_OFFSET_SF):
            cfa = Cfa(cfa.register, given[0] * (data if what == DEF_CFA_OFFSET_SF else 1))
        elif what == DEF_CFA_REGISTER:
            cfa = Cfa(given[0], cfa.offset)
        elif what == DEF_CFA_EXPRESSION:
            cfa = Cfa()
    return cfa
