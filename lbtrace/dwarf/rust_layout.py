"""How rustc lays out and passes values: as one scalar, two, or by their bytes.

rustc passes a value that amounts to one number as that number, one that
amounts to two (a slice, ``Option<u32>``, a struct of two) as two parameters,
and any other of at most eight bytes as one integer of that size; larger ones
travel as pointers. Source: ``BackendRepr`` in rustc's ``rustc_abi``, and
``fn_abi_adjust_for_abi`` in ``rustc_ty_utils``; rustc promises none of it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from lbtrace.abi.locations import rounded_up
from lbtrace.dwarf import attributes
from lbtrace.dwarf.views import (
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


class ScalarPart(NamedTuple):
    """A number that a type amounts to, with what rustc calls its ``Primitive``."""

    offset: int
    size: int
    kind: Literal["signed", "unsigned", "pointer", "float"]


Layout: TypeAlias = "tuple[ScalarPart, ...] | None"
"""The one or two numbers a type amounts to, () for nothing; None for any other."""


class UnknownLayout(Exception):
    """How this version of rustc passes the type is unknown."""


LIBRARIES = frozenset({"core", "alloc", "std"})
"""Crates whose structs of one number are that number, because they have no ``repr(C)``, but
before atomics (``core::sync::atomic``)."""


class Travels(NamedTuple):
    """What a value travels as: ``scalars``, None for a pointer to it. If it holds a struct of
    one number, which ``#[repr(C)]`` keeps from being that number, it may travel ``otherwise``
    instead: debug information does not say."""

    scalars: tuple[Scalar, ...] | None
    otherwise: tuple[Scalar, ...] | None

    @property
    def unsure(self) -> bool:
        """Whether it makes a difference."""
        return self.scalars != self.otherwise


def passed(die: Any, version: int) -> Travels:
    """Return what rustc 1.``version`` makes a value of the type travel as. Raises
    `UnknownLayout`."""
    layouts = _Layouts(version)
    layout = layouts.of(die, attributes.DEPTH)
    size = attributes.size_of(die)
    whole = (Scalar(0, size, "integer"),) if 0 < size <= WORD else None
    if layout is None:
        return Travels(whole, whole)
    scalars = tuple(
        Scalar(p.offset, p.size, "float" if p.kind == "float" else "integer") for p in layout
    )
    return Travels(scalars, whole if layouts.guessed else scalars)


class _Layouts:
    """Works out what types amount to in a version of rustc."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.guessed = False
        """Whether a struct of one number was taken for that number."""

    def of(self, die: Any, depth: int) -> Layout:
        """Return the numbers of a type."""
        bare = attributes.bare(die) if die is not None else None
        if bare is None or not depth:
            return None
        size = attributes.size_of(bare)
        if bare.tag in attributes.POINTERS:
            return (ScalarPart(0, WORD, "pointer"),)
        if bare.tag == "DW_TAG_enumeration_type":
            return (ScalarPart(0, size, "unsigned"),)
        if bare.tag == "DW_TAG_base_type":
            return _base(bare, size)
        if bare.tag == "DW_TAG_structure_type":
            return self._record(bare, size, depth - 1)
        return () if not size else None

    def _record(self, die: Any, size: int, depth: int) -> Layout:
        part = next((c for c in die.iter_children() if c.tag == "DW_TAG_variant_part"), None)
        if part is not None:
            parts = self._enumeration(part, depth)
        else:
            parts = self._fields(_members(die), depth)
        if parts is None or not size:
            return parts
        if len(parts) == 2 and not _is_pair(
            parts, size, attributes.number(die, "DW_AT_alignment", 0)
        ):
            return None
        if part is not None:
            return parts
        if len(parts) != 1:
            return parts
        # A struct of one number with room around it (an alignment) is kept in memory.
        if parts[0].size != size or _is_atomic(die):
            return None
        self.guessed |= _crate(die) not in LIBRARIES
        return parts

    def _fields(self, fields: list[Any], depth: int) -> Layout:
        """What the fields of a struct amount to together."""
        found: list[ScalarPart] = []
        for field in fields:
            inner = self.of(attributes.type_of(field), depth)
            if inner is None:
                return None
            at = attributes.member_offset(field)
            found += (part._replace(offset=at + part.offset) for part in inner)
            if len(found) > 2:
                return None
        return tuple(sorted(found))

    def _enumeration(self, part: Any, depth: int) -> Layout:
        """An enumeration: its discriminant beside the one number that each variant has
        in the same place, or the variant that has a niche for the others."""
        tag = _discriminant(part)
        variants = [
            self._fields(_members(attributes.bare(attributes.type_of(record))), depth)
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

    def _alike(self, variants: list[tuple[ScalarPart, ...]]) -> bool:
        """Whether the only numbers of ``variants`` are one and the same to rustc."""
        kinds = {part.kind for (part,) in variants}
        if len({part[:2] for (part,) in variants}) > 1:
            return False
        if len(kinds) > 1 and APART <= self._version < TOGETHER:
            raise UnknownLayout
        return len(kinds) == 1 or (self._version >= TOGETHER and "float" not in kinds)


def _base(die: Any, size: int) -> Layout:
    encoding = attributes.number(die, "DW_AT_encoding", 0)
    if not size:
        return ()
    if encoding == ATE_FLOAT:
        return (ScalarPart(0, size, "float"),)
    if encoding in (ATE_SIGNED, ATE_SIGNED_CHAR):
        return (ScalarPart(0, size, "signed"),)
    known = encoding in (ATE_BOOLEAN, *INTEGERS, *CHARACTERS)
    return (ScalarPart(0, size, "unsigned"),) if known else None


def _is_pair(parts: tuple[ScalarPart, ...], size: int, alignment: int) -> bool:
    """Whether a type has the layout of a pair of these two numbers, which those have not that
    are packed or aligned in their own way (``scalar_pair`` in ``rustc_abi``). Of numbers of
    16 bytes the alignment is 16, or was 8."""
    first, second = parts
    for widest in (WORD, 2 * WORD):
        own = min(second.size, widest)
        whole = max(own, min(first.size, widest))
        at = rounded_up(first.size, own)
        fits = (first.offset, second.offset, size) == (0, at, rounded_up(at + second.size, whole))
        if fits and alignment in (0, whole):
            return True
    return False


def _is_atomic(die: Any) -> bool:
    return attributes.text(die, "DW_AT_name").startswith("Atomic") and _crate(die) in LIBRARIES


def _crate(die: Any) -> str:
    """The crate that a type belongs to: the outermost namespace around it."""
    crate = ""
    for child in die.unit.root.iter_children():
        if child.offset > die.offset:
            break
        crate = attributes.text(child, "DW_AT_name") if child.tag == "DW_TAG_namespace" else ""
    return crate


def _members(die: Any) -> list[Any]:
    return [m for m in die.iter_children() if m.tag == "DW_TAG_member"]


def _discriminant(part: Any) -> ScalarPart | None:
    if "DW_AT_discr" not in part.attributes:
        return None
    member = part.get_DIE_from_attribute("DW_AT_discr")
    size = attributes.size_of(attributes.type_of(member))
    return ScalarPart(attributes.member_offset(member), size, "unsigned") if size else None
