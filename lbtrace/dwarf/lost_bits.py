"""Bit fields of which debug information does not say that they are some.

LLVM up to 15 leaves out the size and the first bit of a bit field as wide as its type
(``DwarfUnit::constructMemberDIE``). In a packed record such a field may begin at any bit: the
offset that is recorded is rounded down to a byte.
"""

from __future__ import annotations

from typing import Any

from lbtrace.dwarf import attributes

MISPLACED = "debug information leaves out at which bit it begins"
"""Why a member cannot be shown."""

STATIC = ("DW_AT_external", "DW_AT_declaration")
NUMBERS = frozenset({"DW_TAG_base_type", "DW_TAG_enumeration_type"})
"""What a bit field can be of."""

BYTE = 8

KEEPS_BITS = 16
"""The version of LLVM from which on all bit fields are marked (``DIDerivedType::isBitField``)."""


def find_misplaced(record: Any) -> frozenset[int]:
    """Return the offsets of the entries of members of ``record`` that lie, or may lie, at other
    bits than their entries say: numbers without a first bit that overlap with the bit field before
    them, or would with such a number where that really is, right behind the one before it."""
    if record.tag == "DW_TAG_union_type":
        return frozenset()
    found: set[int] = set()
    until = 0
    for member in record.iter_children():
        if member.tag != "DW_TAG_member" or not attributes.is_plain(member):
            continue
        if any(name in member.attributes for name in STATIC):
            continue
        target = attributes.bare(attributes.type_of(member))
        bits = attributes.number(member, "DW_AT_bit_size", 0)
        start = attributes.first_bit(member) if bits else BYTE * attributes.member_offset(member)
        size = bits or BYTE * attributes.size_of(target)
        if start < until and not bits and target is not None and target.tag in NUMBERS:
            found.add(member.offset)
            start = until
        until = start + size
    return frozenset(found)
