"""Bit fields of which debug information does not say that they are some.

LLVM up to 15 leaves out the size and the first bit of a bit field as wide as its type
(``DwarfUnit::constructMemberDIE``). In a packed record such a field may begin at any bit: the
offset that is recorded is rounded down to a byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lbtrace.dwarf import attributes
from lbtrace.model import Scalar

MISPLACED = "debug information leaves out at which bit it begins"
"""Why a member cannot be shown."""

STATIC = ("DW_AT_external", "DW_AT_declaration")
NUMBERS = frozenset({"DW_TAG_base_type", "DW_TAG_enumeration_type"})
"""What a bit field can be of."""

BYTE = 8

KEEPS_BITS = 16
"""The version of LLVM from which on all bit fields are marked (``DIDerivedType::isBitField``)."""


class Span(NamedTuple):
    """Bits of a record that ``member`` takes, as debug information has it: from ``start`` to before
    ``end``. ``is_field`` says that it gives them as those of a bit field."""

    start: int
    end: int
    is_field: bool
    is_number: bool
    member: Any


def find_misplaced(record: Any, *, loses: bool) -> frozenset[int]:
    """Return the offsets of the entries of members of ``record`` that lie, or may lie, at other
    bits than their entries say.

    A member without a first bit is such a bit field if it overlaps with another number. Where the
    compiler ``loses`` bits it may be one if fewer bits than a padding would have follow it that
    nothing takes: those of its own end, or in a packed record a byte.
    """
    if record.tag == "DW_TAG_union_type":
        return frozenset()
    spans = sorted(_spans(record), key=lambda span: span[:2])
    overlapping = [span for span in spans if _overlaps(span, spans)]
    packed = bool(overlapping) or (loses and attributes.alignment(record) == 1)
    found: set[int] = set()
    following = BYTE * attributes.size_of(record)
    is_certain = True
    for span in reversed(spans):
        gap = following - span.end
        loose = 0 < gap < BYTE or (packed and gap == BYTE) or not is_certain
        suspect = span.is_number and not span.is_field
        is_certain = not (suspect and (span in overlapping or (loses and loose)))
        if not is_certain:
            found.add(span.member.offset)
        following = span.start
    return frozenset(found)


def as_fields(scalars: Sequence[Scalar]) -> list[Scalar]:
    """Return the numbers of a record as if those that lie where their types would not have to
    were such bit fields. A record with other unaligned numbers is passed in memory (psABI 3.2.3);
    bit fields are not asked where they lie."""
    found: list[Scalar] = []
    for scalar in scalars:
        if scalar.kind == "integer" and scalar.offset % scalar.size:
            ends = scalar.offset, scalar.offset + scalar.size - 1
            found += [Scalar(at, 1, "integer") for at in ends]
        else:
            found.append(scalar)
    return found


def _spans(record: Any) -> Iterator[Span]:
    for member in record.iter_children():
        if member.tag != "DW_TAG_member" or not attributes.is_plain(member):
            continue
        if any(name in member.attributes for name in STATIC):
            continue
        target = attributes.bare(attributes.type_of(member))
        bits = attributes.number(member, "DW_AT_bit_size", 0)
        start = attributes.first_bit(member) if bits else BYTE * attributes.member_offset(member)
        end = start + (bits or BYTE * attributes.size_of(target))
        yield Span(start, end, bits > 0, target is not None and target.tag in NUMBERS, member)


def _overlaps(span: Span, spans: Sequence[Span]) -> bool:
    return any(
        other.is_number
        and other.member is not span.member
        and other.start < span.end
        and span.start < other.end
        for other in spans
    )
