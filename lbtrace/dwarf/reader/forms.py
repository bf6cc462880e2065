"""How the values of attributes are written: DWARF 5, section 7.5.6, and GNU's additions.

`FORMS` has a reader for each form. It gets the unit, the unit's bytes and a
position, and returns the value and the position after it. References come as offsets from the start
of the section, strings as bytes, blocks as lists of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from lbtrace.elf.debug_sections import DwarfError

if TYPE_CHECKING:
    from typing import Protocol

    from lbtrace.dwarf.reader.bounds import Budget

    class Unit(Protocol):
        """What forms need of a unit: see `lbtrace.dwarf.reader.entries.Unit`."""

        offset: int
        version: int
        address_size: int
        offset_size: int

        @property
        def budget(self) -> Budget: ...
        def text(self, section: str, offset: int) -> bytes: ...
        def indexed_string(self, index: int) -> bytes: ...
        def indexed_address(self, index: int) -> int: ...


Value: TypeAlias = Any
Reader: TypeAlias = "Callable[[Unit, bytes, int], tuple[Value, int]]"


def uleb(raw: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned LEB128 number at ``at`` (section 7.6), and the position after it."""
    byte = raw[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 70:
            raise DwarfError("a number without end")


def sleb(raw: bytes, at: int) -> tuple[int, int]:
    """Return the signed LEB128 number at ``at``, and the position after it."""
    value, end = uleb(raw, at)
    bits = 7 * (end - at)
    return value - (1 << bits) if value >> bits - 1 else value, end


def _fixed(size: int) -> Reader:
    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        return int.from_bytes(raw[at : at + size], "little"), at + size

    return read


def _address(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    end = at + unit.address_size
    return int.from_bytes(raw[at:end], "little"), end


def _offset(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    end = at + unit.offset_size
    return int.from_bytes(raw[at:end], "little"), end


def _uleb(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    return uleb(raw, at)


def _sleb(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    return sleb(raw, at)


def _string(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    end = raw.find(b"\0", at)
    if end < 0:
        raise DwarfError("a string without end")
    return raw[at:end], end + 1


def _block(size: Reader) -> Reader:
    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        count, at = size(unit, raw, at)
        unit.budget.spend(min(count, len(raw)) >> 6)
        return list(raw[at : at + count]), at + count

    return read


def _flag_present(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    return True, at


def _local(number: Reader) -> Reader:
    """A reference within the unit."""

    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        value, at = number(unit, raw, at)
        return value + unit.offset, at

    return read


def _global(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
    # DWARF 2 gave references the size of an address.
    return (_address if unit.version == 2 else _offset)(unit, raw, at)


def _at(section: str) -> Reader:
    """A string by its offset in a section."""

    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        value, at = _offset(unit, raw, at)
        return unit.text(section, value), at

    return read


def _indexed_string(number: Reader) -> Reader:
    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        value, at = number(unit, raw, at)
        return unit.indexed_string(value), at

    return read


def _indexed_address(number: Reader) -> Reader:
    def read(unit: Unit, raw: bytes, at: int) -> tuple[Value, int]:
        value, at = number(unit, raw, at)
        return unit.indexed_address(value), at

    return read


class Form(Struct, frozen=True):
    """``size`` is that of all its values, -1 for an address, -2 for an offset,
    `VARIES` where each value has its own."""

    name: str
    size: int
    read: Reader


ADDRESS, OFFSET, VARIES = -1, -2, -9

_1, _2, _4, _8 = _fixed(1), _fixed(2), _fixed(4), _fixed(8)

FORMS: dict[int, Form] = {
    0x01: Form("DW_FORM_addr", ADDRESS, _address),
    0x03: Form("DW_FORM_block2", VARIES, _block(_2)),
    0x04: Form("DW_FORM_block4", VARIES, _block(_4)),
    0x05: Form("DW_FORM_data2", 2, _2),
    0x06: Form("DW_FORM_data4", 4, _4),
    0x07: Form("DW_FORM_data8", 8, _8),
    0x08: Form("DW_FORM_string", VARIES, _string),
    0x09: Form("DW_FORM_block", VARIES, _block(_uleb)),
    0x0A: Form("DW_FORM_block1", VARIES, _block(_1)),
    0x0B: Form("DW_FORM_data1", 1, _1),
    0x0C: Form("DW_FORM_flag", 1, _1),
    0x0D: Form("DW_FORM_sdata", VARIES, _sleb),
    0x0E: Form("DW_FORM_strp", OFFSET, _at(".debug_str")),
    0x0F: Form("DW_FORM_udata", VARIES, _uleb),
    0x10: Form("DW_FORM_ref_addr", VARIES, _global),
    0x11: Form("DW_FORM_ref1", 1, _local(_1)),
    0x12: Form("DW_FORM_ref2", 2, _local(_2)),
    0x13: Form("DW_FORM_ref4", 4, _local(_4)),
    0x14: Form("DW_FORM_ref8", 8, _local(_8)),
    0x15: Form("DW_FORM_ref_udata", VARIES, _local(_uleb)),
    0x17: Form("DW_FORM_sec_offset", OFFSET, _offset),
    0x18: Form("DW_FORM_exprloc", VARIES, _block(_uleb)),
    0x19: Form("DW_FORM_flag_present", 0, _flag_present),
    0x1A: Form("DW_FORM_strx", VARIES, _indexed_string(_uleb)),
    0x1B: Form("DW_FORM_addrx", VARIES, _indexed_address(_uleb)),
    0x1E: Form("DW_FORM_data16", 16, _fixed(16)),
    0x1F: Form("DW_FORM_line_strp", OFFSET, _at(".debug_line_str")),
    0x20: Form("DW_FORM_ref_sig8", 8, _8),
    0x22: Form("DW_FORM_loclistx", VARIES, _uleb),
    0x23: Form("DW_FORM_rnglistx", VARIES, _uleb),
    0x25: Form("DW_FORM_strx1", 1, _indexed_string(_1)),
    0x26: Form("DW_FORM_strx2", 2, _indexed_string(_2)),
    0x27: Form("DW_FORM_strx3", 3, _indexed_string(_fixed(3))),
    0x28: Form("DW_FORM_strx4", 4, _indexed_string(_4)),
    0x29: Form("DW_FORM_addrx1", 1, _indexed_address(_1)),
    0x2A: Form("DW_FORM_addrx2", 2, _indexed_address(_2)),
    0x2B: Form("DW_FORM_addrx3", 3, _indexed_address(_fixed(3))),
    0x2C: Form("DW_FORM_addrx4", 4, _indexed_address(_4)),
    0x1F01: Form("DW_FORM_GNU_addr_index", VARIES, _indexed_address(_uleb)),
    0x1F02: Form("DW_FORM_GNU_str_index", VARIES, _indexed_string(_uleb)),
    0x1F20: Form("DW_FORM_GNU_ref_alt", OFFSET, _offset),
    0x1F21: Form("DW_FORM_GNU_strp_alt", OFFSET, _at("sup")),
}
IMPLICIT_CONST = 0x21

REFERENCES = frozenset(
    {
        *("DW_FORM_ref1", "DW_FORM_ref2", "DW_FORM_ref4", "DW_FORM_ref8", "DW_FORM_ref_udata"),
        "DW_FORM_ref_addr",
    }
)
SUPPLEMENTARY = "DW_FORM_GNU_ref_alt"
SIGNATURE = "DW_FORM_ref_sig8"
