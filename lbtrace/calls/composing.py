"""Values of several pieces: records, arrays, what pointers lead to, and what C++, Rust
and Go make of them.

A composer is given what makes the readers of a value's parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.calls.gathering import Fetched, Names
from lbtrace.calls.pieces import FAULT, UNKNOWN_LENGTH, Reader, string_reader
from lbtrace.model import (
    Address,
    Argument,
    Array,
    Constant,
    Datum,
    Elements,
    Fields,
    Integer,
    Interface,
    Pointer,
    Record,
    Referent,
    Slice,
    String,
    Text,
    Unreadable,
    Value,
    Variant,
    Variants,
    Vector,
)

Make: TypeAlias = Callable[[Value], Reader]
"""What makes the reader of a part."""

Composer: TypeAlias = Callable[[Value, Make, Names], Reader]


def _wide_reader(value: Value, make: Make, names: Names) -> Reader:
    """An integer of 16 bytes in two words."""
    low, high = (make(half) for half in value.members)

    def read(fetched: Fetched) -> Datum:
        first, second = low(fetched), high(fetched)
        if isinstance(first, int) and isinstance(second, int):
            return second << 64 | first
        return FAULT

    return read


def _short_string_reader(value: Value, make: Make, names: Names) -> Reader:
    """A string of libc++, which lies in its record where it is short."""
    whole, long = value.members[0].slot, string_reader(value.members[1].slot)

    def read(fetched: Fetched) -> Datum:
        if fetched.faults >> whole & 1:
            return FAULT
        record = bytes(fetched.pieces.get(whole, b""))
        if not record or record[0] & 1:
            return long(fetched)
        length = record[0] >> 1
        return Text(record[1 : 1 + length], length) if length < len(record) else FAULT

    return read


def _vector_reader(value: Value, make: Make, names: Names) -> Reader:
    """The first elements of those that lie elsewhere, and how many follow."""
    slot = value.slot
    step = value.type.step if isinstance(value.type, Vector) else 1
    readers = [make(element) for element in value.members]

    def read(fetched: Fetched) -> Datum:
        if fetched.faults >> slot & 1:
            return FAULT
        size = fetched.words[slot] >> 32
        if size == UNKNOWN_LENGTH:
            return Unreadable("no length")
        count = size // step
        shown = tuple([read(fetched) for read in readers[:count]])
        return Elements(shown, count - len(shown))

    return read


TUPLE = re.compile(r"__\d+")
"""Names that rustc gives to the members of tuples."""


def _variants_reader(value: Value, make: Make, names: Names) -> Reader:
    """An enumeration of Rust: the variant that its discriminant tells."""
    assert isinstance(value.type, Variants)
    cases = value.type.cases
    records = value.members[len(value.members) - len(cases) :]
    readers = [_fields_readers(record, make) for record in records]
    numbers = {number: n for n, case in enumerate(cases) for number in case.values}
    other = next((n for n, case in enumerate(cases) if not case.values), -1)
    tell = make(value.members[0]) if value.type.discriminant else lambda fetched: -1

    def read(fetched: Fetched) -> Datum:
        told = tell(fetched)
        if not isinstance(told, int):
            return told
        chosen = numbers.get(told, other)
        if chosen < 0:
            return Unreadable(f"no variant: {told}")
        return Variant(
            cases[chosen].name,
            tuple([Argument(name, read(fetched)) for name, read in readers[chosen]]),
        )

    return read


def _fields_readers(value: Value, make: Make) -> list[tuple[str, Reader]]:
    return [
        ("" if TUPLE.fullmatch(member.name) else member.name, make(member))
        for member in value.members
    ]


def _record_reader(value: Value, make: Make, names: Names) -> Reader:
    readers = _fields_readers(value, make)
    name = value.type.name if isinstance(value.type, Record) else ""

    def read(fetched: Fetched) -> Datum:
        fields = tuple([Argument(name, read(fetched)) for name, read in readers])
        return _whole(Fields(name, fields), [field.value for field in fields])

    return read


def _array_reader(value: Value, make: Make, names: Names) -> Reader:
    readers = [make(member) for member in value.members]
    count = value.type.count if isinstance(value.type, Array) else len(readers)

    def read(fetched: Fetched) -> Datum:
        elements = tuple([read(fetched) for read in readers])
        return _whole(Elements(elements, count - len(elements)), elements)

    return read


def _pointer_reader(value: Value, make: Make, names: Names) -> Reader:
    """A pointer that leads nowhere is still an address."""
    address = make(replace(value, members=()))
    target = make(value.members[0])
    reference = isinstance(value.type, Pointer) and value.type.reference

    def read(fetched: Fetched) -> Datum:
        where, what = address(fetched), target(fetched)
        if isinstance(where, Address) and not isinstance(what, Unreadable):
            return what if reference else Referent(where, what)
        return where

    return read


def _whole(composed: Datum, parts: Sequence[Datum]) -> Datum:
    """``composed``, or why none of its ``parts`` could be read."""
    first = parts[0]
    if isinstance(first, Unreadable) and all(part == first for part in parts):
        return first
    return composed


def _slice_reader(value: Value, make: Make, names: Names) -> Reader:
    """A slice of Go: its length and capacity, and of the elements that were
    fetched those it has. Bytes are one text of the slice's own type."""
    counts, name_of_type = value.members[:2], getattr(value.type, "name", "")
    readers = [(member.name, make(member)) for member in counts]
    elements = [make(member) for member in value.members[2:]]
    text = any(e.type == String(name_of_type) for e in value.members[2:])

    def read(fetched: Fetched) -> Datum:
        fields = [Argument(name, read(fetched)) for name, read in readers]
        length = fields[0].value
        if text:
            fields.append(Argument("", elements[0](fetched)))
        elif elements and isinstance(length, int):
            shown = tuple([read(fetched) for read in elements[:length]])
            fields.append(Argument("", Elements(shown, max(0, length - len(shown)))))
        return _whole(Fields(name_of_type, tuple(fields)), [f.value for f in fields])

    return read


MESSAGE_FIRST = frozenset({"*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors"})
"""Types of errors that begin with their message."""


def _interface_reader(value: Value, make: Make, names: Names) -> Reader:
    """An interface of Go: the name of its dynamic type, and what is known of its value.

    The hash of the type lies behind a pointer that is nil where the interface is.
    """
    own, slot = value.slot, value.members[0].slot
    own_fault, fault = 1 << own, 1 << slot
    name_of_type = getattr(value.type, "name", "")
    rest = value.members[1:]
    readers = [(member.name, make(member)) for member in rest]

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & own_fault:
            return FAULT
        if not fetched.words[own]:
            return Constant("nil")
        if fetched.faults & fault:
            return FAULT
        number = fetched.words[slot] & 0xFFFF_FFFF
        kind = names.get(number, "")
        fields = [Argument("type", Constant(kind) if kind else Unreadable("an unknown type"))]
        for name, read in readers:
            if name != "message" or kind in MESSAGE_FIRST:
                fields.append(Argument(name, read(fetched)))
        return Fields(name_of_type, tuple(fields))

    return read


COMPOSERS: dict[type, Composer] = {
    Record: _record_reader,
    Array: _array_reader,
    Pointer: _pointer_reader,
    Slice: _slice_reader,
    Interface: _interface_reader,
    Integer: _wide_reader,
    String: _short_string_reader,
    Vector: _vector_reader,
    Variants: _variants_reader,
}
"""By the type of the value."""
