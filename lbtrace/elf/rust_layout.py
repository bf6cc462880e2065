"""How rustc lays out and passes values: as one scalar, two, or by their bytes.

rustc passes a value that amounts to one number as that number, one that
amounts to two (a slice, ``Option<u32>``, a struct of two) as two parameters,
and any other of at most eight bytes as one integer of that size; larger ones
travel as pointers. Source: ``BackendRepr`` in rustc's ``rustc_abi``, and
``fn_abi_adjust_for_abi`` in ``rustc_ty_utils``; rustc promises none of it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from lbtrace.elf import dies
from lbtrace.elf.shapes import (
    ATE_BOOLEAN,
    ATE_FLOAT,
    ATE_SIGNED,
    ATE_SIGNED_CHAR,
    CHARACTERS,
    INTEGERS,
)
from lbtrace.model import Scalar

WORD = 8

APART, TOGETHER = 78, 80
"""Before the first of these minor versions, variants with a signed and an unsigned integer or
a pointer are no pair; from the second on they are (rust-lang/rust pull request 121668)."""


class Part(NamedTuple):
    """A number that a type amounts to, with what rustc calls its ``Primitive``."""

    offset: int
    size: int
    kind: Literal["signed", "unsigned", "pointer", "float"]


Layout: TypeAlias = "tuple[Part, ...] | None"
"""The one or two numbers a type amounts to, () for nothing; None for any other."""


class Uncertain(Exception):
    """Nobody knows how this version of rustc passes the type."""


def passed(die: Any, version: int) -> tuple[Scalar, ...] | None:
    """What rustc 1.``version`` makes a value of the type travel as; None: as a pointer to it.

    Raises `Uncertain`.
    """
    layout = _Layouts(version).of(die, dies.DEPTH)
    size = dies.size_of(die)
    if layout is None:
        return (Scalar(0, size, "integer"),) if 0 < size <= WORD else None
    return tuple(
        Scalar(p.offset, p.size, "float" if p.kind == "float" else "integer") for p in layout
    )


class _Layouts:
    """Works out what types amount to in a version of rustc."""

    def __init__(self, version: int) -> None:
        self._version = version

    def of(self, die: Any, depth: int) -> Layout:
        """The numbers of a type."""
        bare = dies.bare(die) if die is not None else None
        if bare is None or not depth:
            return None
        size = dies.size_of(bare)
        if bare.tag in dies.POINTERS:
            return (Part(0, WORD, "pointer"),)
        if bare.tag == "DW_TAG_enumeration_type":
            return (Part(0, size, "unsigned"),)
        if bare.tag == "DW_TAG_base_type":
            return _base(bare, size)
        if bare.tag == "DW_TAG_structure_type":
            return self._record(bare, size, depth - 1)
        return () if not size else None

    def _record(self, die: Any, size: int, depth: int) -> Layout:
        part = next((c for c in die.iter_children() if c.tag == "DW_TAG_variant_part"), None)
        if part is not None:
            return self._enumeration(part, depth)
        parts = self._fields(_members(die), depth)
        if parts is None or not size:
            return parts
        # A struct of one number with room around it (an alignment) is kept in memory.
        return parts if len(parts) > 1 or not parts or parts[0].size == size else None

    def _fields(self, fields: list[Any], depth: int) -> Layout:
        """What the fields of a struct amount to together."""
        found: list[Part] = []
        for field in fields:
            inner = self.of(dies.type_of(field), depth)
            if inner is None:
                return None
            at = dies.member_offset(field)
            found += (part._replace(offset=at + part.offset) for part in inner)
            if len(found) > 2:
                return None
        return tuple(sorted(found))

    def _enumeration(self, part: Any, depth: int) -> Layout:
        """An enumeration: its discriminant beside the one number that each variant has
        in the same place, or the variant that has a niche for the others."""
        tag = _discriminant(part)
        variants = [
            self._fields(_members(dies.bare(dies.type_of(record))), depth)
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
        if any(p.offset < tag.offset + tag.size and tag.offset < p.offset + p.size for p in first):
            return first if len(carrying) == 1 else None  # the discriminant is in a niche of it
        if any(len(variant) > 1 for variant in carrying) or not self._alike(carrying):
            return None
        return tuple(sorted((tag, first[0])))

    def _alike(self, variants: list[tuple[Part, ...]]) -> bool:
        """Whether the only numbers of ``variants`` are one and the same to rustc."""
        kinds = {part.kind for (part,) in variants}
        if len({part[:2] for (part,) in variants}) > 1:
            return False
        if len(kinds) > 1 and APART <= self._version < TOGETHER:
            raise Uncertain
        return len(kinds) == 1 or (self._version >= TOGETHER and "float" not in kinds)


def _base(die: Any, size: int) -> Layout:
    encoding = dies.number(die, "DW_AT_encoding", 0)
    if not size:
        return ()
    if encoding == ATE_FLOAT:
        return (Part(0, size, "float"),)
    if encoding in (ATE_SIGNED, ATE_SIGNED_CHAR):
        return (Part(0, size, "signed"),)
    known = encoding in (ATE_BOOLEAN, *INTEGERS, *CHARACTERS)
    return (Part(0, size, "unsigned"),) if known else None


def _members(die: Any) -> list[Any]:
    return [m for m in die.iter_children() if m.tag == "DW_TAG_member"]


def _discriminant(part: Any) -> Part | None:
    if "DW_AT_discr" not in part.attributes:
        return None
    member = part.get_DIE_from_attribute("DW_AT_discr")
    size = dies.size_of(dies.type_of(member))
    return Part(dies.member_offset(member), size, "unsigned") if size else None
