"""Enumerations of Rust that carry values. Source: DWARF 5, section 5.7.10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbtrace.elf import dies
from lbtrace.model import Case, Integer, Member, Opaque, Type, Variants

CASES = 24
"""Variants of an enumeration that are looked into."""


def part_of(die: Any) -> Any:
    """The variant part of a record, None if it has none."""
    return next((c for c in die.iter_children() if c.tag == "DW_TAG_variant_part"), None)


def shaped(part: Any, name: str, size: int, shape: Callable[[Any], Type]) -> Type:
    """The type of the enumeration whose variants are in ``part``."""
    discriminant: Member | None = None
    mask = 0
    if "DW_AT_discr" in part.attributes:
        member = part.get_DIE_from_attribute("DW_AT_discr")
        width = dies.size_of(dies.type_of(member))
        if width not in (1, 2, 4, 8, 16):
            return Opaque(name)
        mask = (1 << 8 * width) - 1
        discriminant = Member("", Integer("", width, False), dies.member_offset(member))
    cases: list[Case] = []
    for variant in part.iter_children():
        if variant.tag != "DW_TAG_variant":
            continue
        field = next((c for c in variant.iter_children() if c.tag == "DW_TAG_member"), None)
        if field is None or len(cases) == CASES or "DW_AT_discr_list" in variant.attributes:
            return Opaque(name)
        told = variant.attributes.get("DW_AT_discr_value")
        values = (_number(told.value) & mask,) if told else ()
        cases.append(Case(dies.text(field, "DW_AT_name"), values, shape(dies.type_of(field))))
    return Variants(name, size, discriminant, tuple(cases)) if cases and size else Opaque(name)


def _number(constant: Any) -> int:
    """A constant, of which those of sixteen bytes are blocks."""
    return constant if isinstance(constant, int) else int.from_bytes(bytes(constant), "little")
