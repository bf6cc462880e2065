"""Events to values: what was fetched, put together as the plan says.

A probe's values are worked out once, into functions that take an event and
the bytes that accompany it. Registers and integers are in the event itself
(`Event`), or lead its bytes from the seventh on; strings and pieces of memory
follow, one behind the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias

from lbtrace.calls.gathering import FIXED, Context, Fetched, gatherer, lies_in_memory
from lbtrace.model import (
    Address,
    Argument,
    Array,
    Constant,
    Datum,
    Elements,
    Event,
    Fetch,
    Fields,
    Integer,
    Interface,
    Pointer,
    Record,
    Referent,
    Slice,
    String,
    Text,
    Type,
    Unreadable,
    Value,
    Variant,
    Variants,
    Vector,
    Void,
)
from lbtrace.values import decoder

INSTRUCTION_POINTERS = frozenset({"ip", "pc"})

UNKNOWN_LENGTH = 0xFFFF_FFFF

FAULT = Unreadable("fault")
"""A value whose memory the kernel program could not read."""

NOT_READ = Unreadable("not read")
"""A part of a value that lies behind what was fetched."""


NO_CONTEXT = Context()

Arguments: TypeAlias = Callable[[Event, "bytes | memoryview"], tuple[Argument, ...]]
Result: TypeAlias = Callable[[Event, "bytes | memoryview"], Datum]


_Reader: TypeAlias = Callable[[Fetched], Datum]


def arguments(
    parameters: tuple[Value, ...], fetches: tuple[Fetch, ...], around: Context = NO_CONTEXT
) -> Arguments:
    """What makes the arguments of a call from its entry.

    ``fetches`` are those of the probe; for a slot without one the event's
    word is taken as it is. Functions with none and with one simple argument
    are given their own, for speed.
    """
    pointer = next((n for n, f in enumerate(fetches) if f.register in INSTRUCTION_POINTERS), -1)
    if not parameters and pointer < 0:
        return lambda event, blob: ()
    if pointer < 0 and _is_plain(parameters, fetches):
        readers = [(value.name, _plain_reader(value)) for value in parameters]
        if len(readers) == 1:
            ((only, read),) = readers
            return lambda event, blob: (Argument(only, read(event)),)
        return lambda event, blob: tuple([Argument(name, read(event)) for name, read in readers])
    gather = gatherer(fetches)
    made = [(value.name, _reader(value, fetches, around)) for value in parameters]

    def all_of(event: Event, blob: bytes | memoryview) -> tuple[Argument, ...]:
        fetched = gather(event, blob)
        if pointer >= 0:
            around.namer.learn(event.pid, around.binary, fetched.words[pointer], around.address)
        return tuple([Argument(name, read(fetched)) for name, read in made])

    return all_of


def result(value: Value | None, fetches: tuple[Fetch, ...], around: Context = NO_CONTEXT) -> Result:
    """What makes the result of a call from its return."""
    if value is None or type(value.type) is Void:
        return lambda event, blob: None
    if _is_plain((value,), fetches):
        plain = _plain_reader(value)
        return lambda event, blob: plain(event)
    gather, read = gatherer(fetches), _reader(value, fetches, around)
    return lambda event, blob: read(gather(event, blob))


def _is_plain(values: tuple[Value, ...], fetches: tuple[Fetch, ...]) -> bool:
    """Whether every value is a word in the fixed part of an event."""
    return all(
        value.slot < FIXED
        and not (value.members or value.offset or value.bit_size or _is_code(value.type))
        and not lies_in_memory(value.slot, fetches)
        for value in values
    )


def _is_code(type: Type) -> bool:
    return isinstance(type, Pointer) and type.code


def _plain_reader(value: Value) -> Callable[[Event], Datum]:
    if value.slot < 0:
        nothing = _nothing(value)
        return lambda event: nothing
    fault = 1 << value.slot
    word = attrgetter(f"value{value.slot}")
    decode = decoder(value.type)
    return lambda event: FAULT if event.faults & fault else decode(word(event))


def _nothing(value: Value) -> Datum:
    """The value of what nothing is fetched for: structs and arrays may have no parts."""
    if isinstance(value.type, Record) and not (value.type.size or value.reason):
        return Fields(value.type.name, ())
    if isinstance(value.type, Array) and not (value.type.count or value.reason):
        return Elements((), 0)
    return Unreadable(value.reason)


def _reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """What gets a value out of what was fetched."""
    if value.members or (value.slot >= 0 and isinstance(value.type, Vector)):
        return _COMPOSERS[type(value.type)](value, fetches, around)
    if value.slot < 0:
        nothing = _nothing(value)
        return lambda fetched: nothing
    if isinstance(value.type, String):
        return _string_reader(value.slot)
    if isinstance(value.type, Array):
        return _characters_reader(value, value.type.size, lies_in_memory(value.slot, fetches))
    scalar = _scalar_reader(value, lies_in_memory(value.slot, fetches))
    return _code_reader(scalar, around) if _is_code(value.type) else scalar


def _code_reader(pointer: _Reader, around: Context) -> _Reader:
    """A pointer to a function, by its name."""

    def read(fetched: Fetched) -> Datum:
        where = pointer(fetched)
        return around.namer.name(fetched.pid, where) if isinstance(where, Address) else where

    return read


def _wide_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """An integer of 16 bytes in two words."""
    low, high = (_reader(half, fetches, around) for half in value.members)

    def read(fetched: Fetched) -> Datum:
        first, second = low(fetched), high(fetched)
        if isinstance(first, int) and isinstance(second, int):
            return second << 64 | first
        return FAULT

    return read


def _short_string_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """A string of libc++, which lies in its record where it is short."""
    whole, long = value.members[0].slot, _string_reader(value.members[1].slot)

    def read(fetched: Fetched) -> Datum:
        if fetched.faults >> whole & 1:
            return FAULT
        record = bytes(fetched.pieces.get(whole, b""))
        if not record or record[0] & 1:
            return long(fetched)
        length = record[0] >> 1
        return Text(record[1 : 1 + length], length) if length < len(record) else FAULT

    return read


def _vector_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """The first elements of those that lie elsewhere, and how many follow."""
    slot = value.slot
    step = value.type.step if isinstance(value.type, Vector) else 1
    readers = [_reader(element, fetches, around) for element in value.members]

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


def _variants_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """An enumeration of Rust: the variant that its discriminant tells."""
    assert isinstance(value.type, Variants)
    cases = value.type.cases
    records = value.members[len(value.members) - len(cases) :]
    readers = [_fields_readers(record, fetches, around) for record in records]
    numbers = {number: n for n, case in enumerate(cases) for number in case.values}
    other = next((n for n, case in enumerate(cases) if not case.values), -1)
    tell = (
        _reader(value.members[0], fetches, around)
        if value.type.discriminant
        else lambda fetched: -1
    )

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


def _fields_readers(
    value: Value, fetches: tuple[Fetch, ...], around: Context
) -> list[tuple[str, _Reader]]:
    return [
        ("" if TUPLE.fullmatch(member.name) else member.name, _reader(member, fetches, around))
        for member in value.members
    ]


def _string_reader(slot: int) -> _Reader:
    fault = 1 << slot

    def read(fetched: Fetched) -> Datum:
        word = fetched.words[slot]
        if fetched.faults & fault:
            # The word is then the address. No string is at the null pointer.
            return FAULT if word else Address(0)
        length = word >> 32
        known = None if length == UNKNOWN_LENGTH else length
        return Text(bytes(fetched.pieces.get(slot, b"")), known)

    return read


def _characters_reader(value: Value, size: int, in_memory: bool) -> _Reader:
    """The text in an array of characters: up to a NUL, or to its end."""
    slot, fault, start = value.slot, 1 << value.slot, value.offset

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & fault:
            return FAULT
        if in_memory:
            data = bytes(fetched.pieces.get(slot, b"")[start : start + size])
        else:
            data = fetched.words[slot].to_bytes(8, "little")[start : start + size]
        text, nul, _ = data.partition(b"\0")
        return Text(text, len(text) if nul or len(data) == size else None)

    return read


def _scalar_reader(value: Value, in_memory: bool) -> _Reader:
    slot, fault, offset = value.slot, 1 << value.slot, value.offset
    size = getattr(value.type, "size", 8)
    decode = decoder(value.type)
    low, mask = 0, 0
    sign = 0
    if value.bit_size:
        low, mask = value.bit_offset, (1 << value.bit_size) - 1
        size = -(-(low + value.bit_size) // 8)
        sign = 1 << value.bit_size - 1 if getattr(value.type, "signed", False) else 0

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & fault:
            return FAULT
        if in_memory:
            piece = fetched.pieces.get(slot, b"")[offset : offset + size]
            if len(piece) < size:
                return NOT_READ
            raw = int.from_bytes(piece, "little")
        else:
            raw = fetched.words[slot] >> 8 * offset
        if mask:
            raw = raw >> low & mask
            raw = (raw ^ sign) - sign & (1 << 64) - 1
        return decode(raw)

    return read


def _record_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    readers = _fields_readers(value, fetches, around)
    name = value.type.name if isinstance(value.type, Record) else ""

    def read(fetched: Fetched) -> Datum:
        fields = tuple([Argument(name, read(fetched)) for name, read in readers])
        return _whole(Fields(name, fields), [field.value for field in fields])

    return read


def _array_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    readers = [_reader(member, fetches, around) for member in value.members]
    count = value.type.count if isinstance(value.type, Array) else len(readers)

    def read(fetched: Fetched) -> Datum:
        elements = tuple([read(fetched) for read in readers])
        return _whole(Elements(elements, count - len(elements)), elements)

    return read


def _pointer_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """A pointer that leads nowhere is still an address."""
    address = _scalar_reader(value, lies_in_memory(value.slot, fetches))
    target = _reader(value.members[0], fetches, around)
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


def _slice_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """A slice of Go: its length and capacity, and of the elements that were
    fetched those it has."""
    counts, name_of_type = value.members[:2], getattr(value.type, "name", "")
    readers = [(member.name, _reader(member, fetches, around)) for member in counts]
    elements = [_reader(member, fetches, around) for member in value.members[2:]]
    text = len(elements) == 1 and isinstance(value.members[2].type, String)

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


def _interface_reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> _Reader:
    """An interface of Go: the name of its dynamic type, and what is known of its value.

    The hash of the type lies behind a pointer that is nil where the interface is.
    """
    own, slot = value.slot, value.members[0].slot
    own_fault, fault = 1 << own, 1 << slot
    name_of_type = getattr(value.type, "name", "")
    rest = value.members[1:]
    readers = [(member.name, _reader(member, fetches, around)) for member in rest]

    def read(fetched: Fetched) -> Datum:
        if fetched.faults & own_fault:
            return FAULT
        if not fetched.words[own]:
            return Constant("nil")
        if fetched.faults & fault:
            return FAULT
        number = fetched.words[slot] & 0xFFFF_FFFF
        kind = around.names.get(number, "")
        fields = [Argument("type", Constant(kind) if kind else Unreadable("an unknown type"))]
        for name, read in readers:
            if name != "message" or kind in MESSAGE_FIRST:
                fields.append(Argument(name, read(fetched)))
        return Fields(name_of_type, tuple(fields))

    return read


_COMPOSERS: dict[type, Callable[[Value, tuple[Fetch, ...], Context], _Reader]] = {
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
