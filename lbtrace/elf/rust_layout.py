"""How rustc lays out and passes values: as one scalar, two, or by their bytes.

rustc passes a value that amounts to one number as that number, one that
amounts to two (a slice, ``Option<u32>``, a struct of two) as two parameters,
and any other of at most eight bytes as one integer of that size; larger ones
travel as pointers. Source: ``BackendRepr`` in rustc's ``rustc_abi``, and
``fn_abi_adjust_for_abi`` in ``rustc_ty_utils``; rustc promises none of it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from lbtrace.elf import dies
from lbtrace.elf.shapes import ATE_BOOLEAN, ATE_FLOAT, CHARACTERS, INTEGERS
from lbtrace.model import Scalar

WORD = 8

Layout: TypeAlias = "tuple[Scalar, ...] | None"
"""The one or two scalars a type amounts to, () for nothing; None for any other."""


def passed(die: Any) -> Layout:
    """What a value of the type travels as; None: as a pointer to it."""
    layout = layout_of(die, dies.DEPTH)
    size = dies.size_of(die)
    if layout is None and 0 < size <= WORD:
        return (Scalar(0, size, "integer"),)
    return layout


def layout_of(die: Any, depth: int) -> Layout:
    """The scalars of a type."""
    bare = dies.bare(die) if die is not None else None
    if bare is None or not depth:
        return None
    size = dies.size_of(bare)
    if bare.tag in dies.POINTERS:
        return (Scalar(0, WORD, "integer"),)
    if bare.tag == "DW_TAG_enumeration_type":
        return (Scalar(0, size, "integer"),)
    if bare.tag == "DW_TAG_base_type":
        return _base(bare, size)
    if bare.tag == "DW_TAG_structure_type":
        return _record(bare, size, depth - 1)
    return () if not size else None


def _base(die: Any, size: int) -> Layout:
    encoding = dies.number(die, "DW_AT_encoding", 0)
    if not size:
        return ()
    if encoding == ATE_FLOAT:
        return (Scalar(0, size, "float"),)
    known = encoding in (ATE_BOOLEAN, *INTEGERS, *CHARACTERS)
    return (Scalar(0, size, "integer"),) if known else None


def _record(die: Any, size: int, depth: int) -> Layout:
    part = next((c for c in die.iter_children() if c.tag == "DW_TAG_variant_part"), None)
    if part is not None:
        return _enumeration(part, depth)
    scalars = _fields(_members(die), depth)
    if scalars is None or not size:
        return scalars
    # A struct of one number with room around it (an alignment) is kept in memory.
    return scalars if len(scalars) > 1 or not scalars or scalars[0].size == size else None


def _members(die: Any) -> list[Any]:
    return [m for m in die.iter_children() if m.tag == "DW_TAG_member"]


def _fields(fields: list[Any], depth: int) -> Layout:
    """What the fields of a struct amount to together."""
    found: list[Scalar] = []
    for field in fields:
        inner = layout_of(dies.type_of(field), depth)
        if inner is None:
            return None
        at = dies.member_offset(field)
        found += (Scalar(at + s.offset, s.size, s.kind) for s in inner)
        if len(found) > 2:
            return None
    return tuple(sorted(found, key=lambda scalar: scalar.offset))


def _enumeration(part: Any, depth: int) -> Layout:
    """An enumeration: its discriminant beside the one number that each variant has
    in the same place, or the variant that has a niche for the others."""
    tag = _discriminant(part)
    variants = [
        _fields(_members(dies.bare(dies.type_of(record))), depth)
        for variant in part.iter_children()
        if variant.tag == "DW_TAG_variant"
        for record in _members(variant)
    ]
    if any(variant is None for variant in variants):
        return None
    carrying = [variant for variant in variants if variant]
    if tag is None:
        return carrying[0] if carrying else ()
    if not carrying:
        return (tag,)
    first = carrying[0]
    if any(s.offset < tag.offset + tag.size and tag.offset < s.offset + s.size for s in first):
        return first if len(carrying) == 1 else None  # the discriminant is in a niche of it
    same = {(v[0].offset, v[0].size, v[0].kind) for v in carrying if len(v) == 1}
    if len(same) == 1 and all(len(v) == 1 for v in carrying):
        return tuple(sorted((tag, first[0]), key=lambda scalar: scalar.offset))
    return None


def _discriminant(part: Any) -> Scalar | None:
    if "DW_AT_discr" not in part.attributes:
        return None
    member = part.get_DIE_from_attribute("DW_AT_discr")
    size = dies.size_of(dies.type_of(member))
    return Scalar(dies.member_offset(member), size, "integer") if size else None
