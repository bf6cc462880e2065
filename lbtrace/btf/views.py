"""BTF's types as views, which kinds of values are recognised by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lbtrace.btf import reader
from lbtrace.btf.reader import Btf, BtfError, BtfType, Kind
from lbtrace.recognize.view import MemberView, PlainView

if TYPE_CHECKING:
    from lbtrace.recognize.view import Encoding, FormOfType

SIGNED, CHARACTER, BOOLEAN = 1, 2, 4
"""``BTF_INT_*``. Compilers do not set the second one: a ``char`` is known by its name."""

FORMS: dict[Kind, FormOfType] = {
    Kind.VOID: "nothing",
    Kind.INT: "base",
    Kind.FLOAT: "base",
    Kind.ENUM: "enumeration",
    Kind.ENUM64: "enumeration",
    Kind.PTR: "pointer",
    Kind.STRUCT: "record",
    Kind.UNION: "record",
    Kind.FWD: "record",
    Kind.ARRAY: "array",
}

QUALIFIERS = {Kind.CONST: "const", Kind.VOLATILE: "volatile", Kind.RESTRICT: "restrict"}
SEEN_THROUGH = frozenset({Kind.TYPEDEF, Kind.TYPE_TAG, *QUALIFIERS})

KEYWORDS = {Kind.STRUCT: "struct", Kind.UNION: "union", Kind.ENUM: "enum", Kind.ENUM64: "enum"}

CHARACTERS: dict[str, Encoding] = {
    "char": "signed character",
    "signed char": "signed character",
    "unsigned char": "unsigned character",
}

POINTER = 8
"""Bytes of a pointer of the machines that lbtrace knows."""

DEPTH = 32
"""Types that lead to each other without end are damaged."""


class BtfView(PlainView):
    """A type of ``btf``, by its number: a `View`."""

    __slots__ = ("_bare", "_btf", "_number")

    def __init__(self, btf: Btf, number: int) -> None:
        self._btf, self._number = btf, number
        self._bare = _bare(btf, number)

    def of(self, number: int) -> BtfView:
        """Return a type of the same description, seen the same way."""
        return BtfView(self._btf, number)

    @property
    def key(self) -> int:
        return self._number

    @property
    def form(self) -> FormOfType:
        return FORMS.get(self._bare.kind, "other")

    @property
    def name(self) -> str:
        return self._bare.name

    @property
    def written(self) -> str:
        return declare(self._btf, self._number)

    @property
    def size(self) -> int:
        return size_of(self._btf, self._bare)

    @property
    def is_sized(self) -> bool:
        return self._bare.kind != Kind.FWD

    @property
    def alignment(self) -> int:
        """The largest size of a number in it, as BTF has no alignments."""
        return _alignment(self._btf, self._bare, DEPTH)

    @property
    def language(self) -> str:
        return "c"

    @property
    def encoding(self) -> Encoding:
        if self._bare.kind == Kind.FLOAT:
            return "complex" if "complex" in self._bare.name else "float"
        if self._bare.kind != Kind.INT:
            return ""
        bits = reader.encoding(self._bare)
        if bits & BOOLEAN or self._bare.name == "_Bool":
            return "boolean"
        plain: Encoding = "signed" if bits & SIGNED else "unsigned"
        return CHARACTERS.get(self._bare.name, plain) if self.size == 1 else plain

    @property
    def is_x87(self) -> bool:
        return self._bare.name == "long double" and self.size == 16

    @property
    def leads_to_code(self) -> bool:
        if self._bare.kind != Kind.PTR:
            return False
        return _bare(self._btf, self._bare.value).kind == Kind.FUNC_PROTO

    @property
    def target(self) -> BtfView | None:
        if self._bare.kind == Kind.PTR:
            return self.of(self._bare.value)
        if self._bare.kind != Kind.ARRAY:
            return None
        return self.of(_dimensions(self._btf, self._bare)[1])

    @property
    def counts(self) -> Sequence[int | None]:
        if self._bare.kind != Kind.ARRAY:
            return ()
        counts = _dimensions(self._btf, self._bare)[0]
        # BTF says 0 of an array whose length is unknown, as a record's last member may be one.
        return [count or None for count in counts]

    @property
    def constants(self) -> Iterator[tuple[int, str]]:
        yield from reader.constants(self._bare)

    @property
    def members(self) -> Iterator[MemberView]:
        for name, number, offset, bits in reader.members(self._bare):
            first = offset if bits else 0
            yield MemberView(name, self.of(number), offset // 8, first, bits)


def declare(btf: Btf, number: int, inner: str = "", depth: int = DEPTH) -> str:  # noqa: PLR0911 - a return for each case
    """Return the C declaration of a type around the declarator ``inner``."""
    if not depth:
        return "?"
    type = btf.type(number)
    if type.kind == Kind.PTR:
        target = btf.type(type.value).kind
        star = f"(*{inner})" if target in (Kind.FUNC_PROTO, Kind.ARRAY) else f"*{inner}"
        return declare(btf, type.value, star, depth - 1)
    if type.kind in QUALIFIERS:
        qualifier = QUALIFIERS[type.kind]
        if btf.type(type.value).kind == Kind.PTR:
            return declare(btf, type.value, _join(qualifier, inner), depth - 1)
        return _join(qualifier, declare(btf, type.value, inner, depth - 1))
    if type.kind == Kind.TYPE_TAG:
        return declare(btf, type.value, inner, depth - 1)
    if type.kind == Kind.ARRAY:
        element, count = reader.elements(type)
        return declare(btf, element, f"{inner}[{count or ''}]", depth - 1)
    if type.kind == Kind.FUNC_PROTO:
        shown = [
            declare(btf, each, "", depth - 1) if each else "..."
            for _, each in reader.parameters(type)
        ]
        return declare(btf, type.value, f"{inner}({', '.join(shown) or 'void'})", depth - 1)
    kind = type.kind
    if kind == Kind.FWD:
        kind = Kind.UNION if type.flag else Kind.STRUCT
    keyword = KEYWORDS.get(kind, "")
    return _join(_join(keyword, type.name or "{…}"), inner)


def size_of(btf: Btf, type: BtfType, depth: int = DEPTH) -> int:
    """Return the bytes of a type's values, 0 where it has none."""
    if type.kind == Kind.PTR:
        return POINTER
    if type.kind == Kind.ARRAY and depth:
        element, count = reader.elements(type)
        return count * size_of(btf, _bare(btf, element), depth - 1)
    return type.value if FORMS.get(type.kind) in ("base", "enumeration", "record") else 0


def _bare(btf: Btf, number: int) -> BtfType:
    """The type without its typedefs and qualifiers."""
    for _ in range(DEPTH):
        type = btf.type(number)
        if type.kind not in SEEN_THROUGH:
            return type
        number = type.value
    raise BtfError("damaged BTF", "reinstall the kernel or the file that has it")


def _dimensions(btf: Btf, array: BtfType) -> tuple[list[int], int]:
    """The counts of an array of arrays, and the type of what these hold. C's arrays of
    several dimensions are arrays of arrays; those that a typedef names are types of their own."""
    counts: list[int] = []
    element = 0
    while array.kind == Kind.ARRAY and len(counts) < DEPTH:
        element, count = reader.elements(array)
        counts.append(count)
        array = btf.type(element)
    return counts, element


def _alignment(btf: Btf, type: BtfType, depth: int) -> int:
    if not depth:
        return 1
    if type.kind == Kind.ARRAY:
        return _alignment(btf, _bare(btf, reader.elements(type)[0]), depth - 1)
    size = size_of(btf, type)
    if FORMS.get(type.kind) != "record":
        return max(1, size // 2 if "complex" in type.name else size)
    largest = 1
    for _, number, offset, bits in reader.members(type):
        own = _alignment(btf, _bare(btf, number), depth - 1)
        if not bits and offset // 8 % own:
            return 1
        largest = max(largest, own)
    return 1 if size % largest else largest


def _join(left: str, right: str) -> str:
    return f"{left} {right}" if left and right else left or right
