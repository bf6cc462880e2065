"""DWARF type entries to `model.Type`: what a value of the type is made of.

Types are looked into only as far as they can be shown: pointers ``depth``
deep, records and arrays that are part of a value to a bound. Whatever is
damaged, circular or without end stops at the bounds.

Sources: DWARF 5, chapter 5; strings are known by their members, those of
libstdc++ (``bits/basic_string.h``, ``string_view``) and rustc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from lbtrace.elf import dies, variants, vectors
from lbtrace.model import (
    Array,
    Boolean,
    Character,
    Enumeration,
    Float,
    Integer,
    Member,
    Opaque,
    Pointer,
    Record,
    String,
    Type,
)

NESTING = 6
"""Records within records that are looked into."""

MEMBERS = 64
ENUMERATORS = 1024
ENTRIES = 2000
"""Type entries looked at for one value."""

ATE_BOOLEAN, ATE_COMPLEX, ATE_FLOAT, ATE_SIGNED, ATE_SIGNED_CHAR = 2, 3, 4, 5, 6
ATE_UNSIGNED, ATE_UNSIGNED_CHAR, ATE_UTF = 7, 8, 0x10
NON_ZERO = re.compile(r"NonZero(<\w+>|[IU]\w+)")
"""Numbers of Rust's library that are wrapped, once or twice (``std::num``)."""
INTEGERS = frozenset({ATE_SIGNED, ATE_UNSIGNED})
CHARACTERS = frozenset({ATE_SIGNED_CHAR, ATE_UNSIGNED_CHAR, ATE_UTF})
SIGNED = frozenset({ATE_SIGNED, ATE_SIGNED_CHAR})
SMALL_INTEGERS = frozenset({"signed char", "unsigned char"})
"""Characters by their encoding, but numbers to their users (``uint8_t``)."""

CPP_STRING = ("_M_dataplus", "_M_string_length")
CPP_VIEW = ("_M_str", "_M_len")
LIBCXX_STRINGS = frozenset({"__r_", "__rep_"})
LIBCXX_SIZE = 24
"""libc++'s ``basic_string``: capacity, size and address, or the text itself."""
LIBCXX_VIEW = ("__data", "__size")
RUST_TEXT = frozenset({"&str", "&mut str", "&[u8]", "&mut [u8]"})


class Shaper:
    """Makes the type of one value; ``name`` gives the written name of an entry."""

    def __init__(self, name: Callable[[Any], str], *, rust: bool, depth: int, x87: bool) -> None:
        self._name = name
        self._rust = rust
        self._x87 = x87
        self._depth = depth
        self._left = ENTRIES

    def shape(self, die: Any) -> Type:
        """The type that the entry ``die`` describes."""
        return self._shape(die, NESTING, self._depth)

    def _shape(self, die: Any, nesting: int, depth: int) -> Type:
        self._left -= 1
        name, bare = self._name(die), dies.bare(die)
        if bare is None or self._left < 0:
            return Opaque(name)
        if bare.tag in dies.POINTERS or (
            bare.tag == "DW_TAG_unspecified_type" and "nullptr" in name
        ):
            code = bare.tag == "DW_TAG_pointer_type" and dies.leads_to_code(bare)
            target = None if code else self._target(bare, nesting, depth)
            return Pointer(name, 8, target, code=code)
        maker = {
            "DW_TAG_base_type": self._base,
            "DW_TAG_enumeration_type": self._enumeration,
            dies.MEMBER_POINTER: _member_pointer,
        }.get(bare.tag)
        if maker is not None:
            return maker(bare, name)
        if nesting and bare.tag in dies.RECORDS:
            return self._record(bare, name, nesting - 1, depth)
        if nesting and bare.tag == "DW_TAG_array_type":
            return self._array(bare, name, nesting - 1, depth)
        return Opaque(name)

    def _target(self, pointer: Any, nesting: int, depth: int) -> Type | None:
        target = dies.type_of(pointer)
        bare = dies.bare(target) if target is not None else None
        if bare is None:
            return None
        # Strings are shown whatever the depth.
        if bare.tag == "DW_TAG_base_type" or depth > 0:
            return self._shape(target, nesting, depth - 1)
        refers = pointer.tag != "DW_TAG_pointer_type" or (
            self._rust and dies.text(pointer, "DW_AT_name").startswith("&")
        )
        if bare.tag in dies.RECORDS and refers:
            return self._kept(bare, self._name(target), nesting)
        return None

    def _base(self, die: Any, name: str) -> Type:  # noqa: PLR0911
        size = dies.number(die, "DW_AT_byte_size", 0)
        encoding = dies.number(die, "DW_AT_encoding", 0)
        if encoding == ATE_FLOAT and size in (2, 4, 8):
            return Float(name, size)
        if encoding == ATE_FLOAT and size == 16:
            # psABI 3.1.2: a long double of x86-64 has ten bytes, and six of padding
            return Float(name, 10 if self._x87 and "128" not in name else 16)
        if encoding == ATE_COMPLEX and size in (8, 16, 32):
            part = Float("", 10 if size == 32 and self._x87 and "128" not in name else size // 2)
            return Record(name, size, (Member("re", part, 0), Member("im", part, size // 2)))
        if size == 16 and encoding in INTEGERS:
            return Integer(name, size, encoding in SIGNED)
        if size not in (1, 2, 4, 8):
            return Opaque(name)
        if encoding == ATE_BOOLEAN:
            return Boolean(name, size)
        if dies.text(die, "DW_AT_name") in SMALL_INTEGERS or encoding in INTEGERS:
            return Integer(name, size, encoding in SIGNED)
        if encoding in CHARACTERS:
            return Character(name, size, encoding in SIGNED)
        return Opaque(name)

    def _enumeration(self, die: Any, name: str) -> Type:
        size = dies.number(die, "DW_AT_byte_size", 0)
        if size not in (1, 2, 4, 8):
            return Opaque(name)
        values: list[tuple[int, str]] = []
        for child in die.iter_children():
            if child.tag == "DW_TAG_enumerator" and len(values) < ENUMERATORS:
                number = dies.number(child, "DW_AT_const_value", 0)
                values.append((number, dies.text(child, "DW_AT_name")))
        signed = any(number < 0 for number, _ in values)
        if not signed:
            values = [(number & (1 << 8 * size) - 1, name) for number, name in values]
        return Enumeration(name, size, signed, tuple(values))

    def _record(self, die: Any, name: str, nesting: int, depth: int) -> Type:
        size = dies.number(die, "DW_AT_byte_size", 0)
        kept = self._kept(die, name, nesting)
        if kept is not None:
            return kept
        if self._rust and (part := variants.part_of(die)) is not None:
            return variants.shaped(part, name, size, lambda d: self._shape(d, nesting, depth))
        if self._rust and NON_ZERO.fullmatch(dies.text(die, "DW_AT_name")):
            number = next(iter(_members(die)), None)
            return Opaque(name) if number is None else self._member(number, nesting, depth).type
        members: list[Member] = []
        for child in _members(die):
            if child is None:  # a variant part, a virtual base: not a fixed layout
                return Opaque(name)
            if len(members) == MEMBERS or self._left < 0:
                break
            member = self._member(child, nesting, depth)
            if not (child.tag == "DW_TAG_inheritance" and _is_empty(member.type)):
                members.append(member)
        if not members and size and not self._rust:  # C++ gives it a byte that holds nothing
            return Record(name, 0)
        return Record(name, size, tuple(members)) if size else Opaque(name)

    def _kept(self, die: Any, name: str, nesting: int) -> Type | None:
        """The record as text or elements that it keeps elsewhere, if it is one that does."""
        return self._string(die, name) or vectors.vector(
            die, name, lambda d: self._shape(d, nesting, 0), rust=self._rust
        )

    def _member(self, die: Any, nesting: int, depth: int) -> Member:
        target = dies.type_of(die)
        type = self._shape(target, nesting, depth)
        name = dies.text(die, "DW_AT_name")
        if die.tag == "DW_TAG_inheritance":
            name = type.name if not isinstance(type, Pointer) else ""  # type: ignore[union-attr]
        offset = dies.member_offset(die)
        bits = dies.number(die, "DW_AT_bit_size", 0)
        if not bits:
            return Member(name, type, offset)
        first = dies.first_bit(die)
        return Member(name, type, first // 8, first % 8, bits)

    def _string(self, die: Any, name: str) -> String | None:  # noqa: PLR0911
        """The record as text, if it is one that is known."""
        size = dies.number(die, "DW_AT_byte_size", 0)
        own = dies.text(die, "DW_AT_name")
        if "<char16" in own or "<char32" in own or "<char8" in own:
            return None
        offsets = {
            dies.text(m, "DW_AT_name"): dies.member_offset(m)
            for m in _members(die)
            if m is not None
        }
        for pointer, length in (CPP_STRING, CPP_VIEW):
            if pointer in offsets and length in offsets:
                wide = "<wchar_t" in own or "<char16" in own or "<char32" in own
                return None if wide else String(name, size, offsets[pointer], offsets[length])
        if own.startswith("basic_string<char") and size == LIBCXX_SIZE:
            return String(name, size, 16, 8, True) if LIBCXX_STRINGS & set(offsets) else None
        if own.startswith("basic_string_view<char") and set(LIBCXX_VIEW) <= set(offsets):
            return String(name, size, offsets[LIBCXX_VIEW[0]], offsets[LIBCXX_VIEW[1]])
        if self._rust and own in RUST_TEXT:
            return String(
                name, size, offsets[vectors.RUST_SLICE[0]], offsets[vectors.RUST_SLICE[1]]
            )
        if self._rust and own == "String" and set(offsets) == {"vec"}:
            return self._rust_string(die, name, size)
        return None

    def _rust_string(self, die: Any, name: str, size: int) -> String | None:
        """The String of Rust's library: somewhere below ``vec`` lie ``len`` and a pointer."""
        pointer = length = -1
        pending = [(die, 0, NESTING * 2)]
        while pending:
            record, start, left = pending.pop()
            for member in _members(record):
                if member is None or not left:
                    continue
                at = start + dies.member_offset(member)
                bare = dies.bare(dies.type_of(member))
                if bare is None:
                    continue
                if bare.tag in dies.POINTERS:
                    pointer = at
                elif dies.text(member, "DW_AT_name") == "len":
                    length = at
                elif bare.tag in dies.RECORDS and dies.number(bare, "DW_AT_byte_size", 0) >= 8:
                    pending.append((bare, at, left - 1))
        return String(name, size, pointer, length) if min(pointer, length) >= 0 else None

    def _array(self, die: Any, name: str, nesting: int, depth: int) -> Type:
        counts = dies.counts(die)
        element: Type = self._shape(dies.type_of(die), nesting, depth)
        size = dies.size_of(dies.type_of(die))
        if not counts or None in counts or not size or "DW_AT_GNU_vector" in die.attributes:
            return Opaque(name)
        for count in reversed(counts):
            assert count is not None
            size *= count
            element = Array(name, size, element, count)
        return element if size else Opaque(name)


def _member_pointer(die: Any, name: str) -> Type:
    if dies.leads_to_code(die):
        return Pointer(name, code=True)
    return Integer(name, dies.POINTER_SIZE, True)


def _is_empty(type: Type) -> bool:
    return isinstance(type, Record) and not type.size


def _members(die: Any) -> Iterator[Any]:
    """The members and bases of a record; None for one that lies at no fixed offset."""
    for child in die.iter_children():
        if child.tag == "DW_TAG_variant_part":
            yield None
        elif child.tag in ("DW_TAG_member", "DW_TAG_inheritance"):
            if "DW_AT_external" in child.attributes or "DW_AT_declaration" in child.attributes:
                continue  # a static member
            yield child if dies.is_plain(child) else None
