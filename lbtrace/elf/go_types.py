"""Types of Go, from DWARF: their kind, layout and parts.

Kinds are those of Go's package ``reflect``; layouts of strings, slices,
interfaces, maps and channels those of its ``runtime``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lbtrace.elf.dies import text
from lbtrace.model import (
    Array,
    Boolean,
    Float,
    Integer,
    Member,
    Pointer,
    Record,
    Scalar,
    String,
    Type,
)

GO_KIND, GO_ELEM = 0x2900, 0x2902
"""DW_AT_go_kind, DW_AT_go_elem."""

BOOL, INT, INT64, UINT, UINTPTR, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = (
    *(1, 2, 6, 7, 12, 13, 14, 15, 16),
)
ARRAY, CHAN, FUNC, INTERFACE, MAP, POINTER, SLICE, STRING, STRUCT, UNSAFE_POINTER = range(17, 27)

DEPTH = 32
"""References followed before a type counts as damaged."""

LOOKED_INTO = 2
"""Pointers whose targets' types are told."""

LARGEST_IN_REGISTERS = 64
"""Scalars that no convention would put into registers any more."""


class Known(NamedTuple):
    """A type, its size and alignment in bytes, and the numbers it is made of;
    None where it holds an array of several elements."""

    type: Type
    size: int
    alignment: int
    scalars: tuple[Scalar, ...] | None


class GoTypes:
    """Works out types, each once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Known] = {}

    def of(self, die: Any, depth: int = LOOKED_INTO, nesting: int = DEPTH) -> Known:
        """The type that ``die`` describes; of pointers, ``depth`` deep what they lead to."""
        if not nesting:
            raise ValueError("types refer to each other in a circle")
        key = die.offset, depth
        if key not in self._known:
            self._known[key] = self._work_out(die, depth, nesting)
        return self._known[key]

    def _work_out(self, die: Any, depth: int, nesting: int) -> Known:  # noqa: PLR0911
        name = text(die, "DW_AT_name")
        kind = _kind(die)
        if die.tag == "DW_TAG_typedef" and kind not in (MAP, CHAN, INTERFACE, FUNC):
            # The name of a struct stands at the struct itself, too.
            return self.of(_target(die), depth, nesting - 1)
        if kind == STRING:
            return Known(String(name, 16, 0, 8), 16, 8, _words(2))
        if kind == SLICE:
            return Known(self._slice(die, name, depth, nesting), 24, 8, _words(3))
        if kind == INTERFACE:
            return Known(_interface(die, name), 16, 8, _words(2))
        if kind in (MAP, CHAN):
            return Known(_counted(name), 8, 8, _words(1))
        if kind == STRUCT or (kind == 0 and die.tag == "DW_TAG_structure_type"):
            return self._struct(die, name, depth, nesting)
        if kind == ARRAY:
            return self._array(die, name, depth, nesting)
        if die.tag == "DW_TAG_base_type":
            return _base(die, name, kind)
        target = None
        if kind == POINTER and depth > 0 and "DW_AT_type" in die.attributes:
            target = self.of(_target(die), depth - 1, nesting - 1).type
        return Known(Pointer(name, 8, target, "nil"), 8, 8, _words(1))

    def _slice(self, die: Any, name: str, depth: int, nesting: int) -> Record:
        element: Type | None = None
        if depth > 0 and GO_ELEM in die.attributes:
            reference = die.attributes[GO_ELEM].value
            element = self.of(die.dwarfinfo.get_DIE_from_refaddr(reference), 0, nesting - 1).type
        return Record(
            name,
            24,
            (
                Member("array", Pointer("*" + name[2:], 8, element), 0),
                Member("len", Integer("int", 8, True), 8),
                Member("cap", Integer("int", 8, True), 16),
            ),
        )

    def _struct(self, die: Any, name: str, depth: int, nesting: int) -> Known:
        members: list[Member] = []
        scalars: list[Scalar] | None = []
        alignment = 1
        for child in die.iter_children():
            if child.tag != "DW_TAG_member":
                continue
            offset = int(child.attributes["DW_AT_data_member_location"].value)
            known = self.of(_target(child), depth, nesting - 1)
            members.append(Member(text(child, "DW_AT_name"), known.type, offset))
            alignment = max(alignment, known.alignment)
            scalars = _joined(scalars, known, offset)
        size = _size(die)
        made = None if scalars is None else tuple(scalars)
        return Known(Record(name, size, tuple(members)), size, alignment, made)

    def _array(self, die: Any, name: str, depth: int, nesting: int) -> Known:
        element = self.of(_target(die), depth, nesting - 1)
        size = _size(die)
        count = size // element.size if element.size else _count(die)
        scalars = () if count == 0 else element.scalars if count == 1 else None
        return Known(Array(name, size, element.type, count), size, element.alignment, scalars)


def _base(die: Any, name: str, kind: int) -> Known:
    size = _size(die)
    if kind in (COMPLEX64, COMPLEX128):
        half = size // 2
        parts = (Scalar(0, half, "float"), Scalar(half, half, "float"))
        part = Float(f"float{8 * half}", half)
        members = (Member("real", part, 0), Member("imag", part, half))
        return Known(Record(name, size, members), size, half, parts)
    alignment = max(1, min(size, 8))
    if kind in (FLOAT32, FLOAT64):
        return Known(Float(name, size), size, alignment, (Scalar(0, size, "float"),))
    whole = (Scalar(0, size, "integer"),)
    if kind == BOOL:
        return Known(Boolean(name, size), size, alignment, whole)
    return Known(Integer(name, size, INT <= kind <= INT64), size, alignment, whole)


def _interface(die: Any, name: str) -> Record:
    """``runtime.iface`` or ``eface``: what tells the dynamic type, and the value."""
    for _ in range(DEPTH):
        if "DW_AT_type" not in die.attributes:
            break
        die = _target(die)
    kind = "*runtime._type" if text(die, "DW_AT_name") == "runtime.eface" else "*runtime.itab"
    members = (Member("type", Pointer(kind), 0), Member("data", Pointer("unsafe.Pointer"), 8))
    return Record(name, 16, members)


def _counted(name: str) -> Pointer:
    """A map or channel: its header begins with the number of elements, in all
    versions (``runtime.hmap.count``, ``maps.Map.used``, ``runtime.hchan.qcount``)."""
    header = Record(name, 8, (Member("len", Integer("int", 8, True), 0),))
    return Pointer(name, 8, header, "nil", reference=True)


def _joined(scalars: list[Scalar] | None, known: Known, offset: int) -> list[Scalar] | None:
    if scalars is None or known.scalars is None or len(scalars) > LARGEST_IN_REGISTERS:
        return None
    return scalars + [Scalar(offset + s.offset, s.size, s.kind) for s in known.scalars]


def _words(count: int) -> tuple[Scalar, ...]:
    return tuple(Scalar(8 * n, 8, "integer") for n in range(count))


def _kind(die: Any) -> int:
    attribute = die.attributes.get(GO_KIND)
    return int(attribute.value) if attribute is not None else -1


def _count(die: Any) -> int:
    """The number of an array's elements, which may be of no size."""
    ranges = [c for c in die.iter_children() if c.tag == "DW_TAG_subrange_type"]
    attribute = ranges[0].attributes.get("DW_AT_count") if ranges else None
    return int(attribute.value) if attribute is not None else 0


def _size(die: Any) -> int:
    attribute = die.attributes.get("DW_AT_byte_size")
    return int(attribute.value) if attribute is not None else 0


def _target(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type")
