"""Events to values: what was fetched, put together as the plan says.

A probe's values are worked out once, into functions that take an event and
the bytes that accompany it. Registers and integers are in the event itself
(`Event`), or lead its bytes from the seventh on; strings and pieces of memory
follow, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from struct import Struct
from typing import TypeAlias

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
    Interface,
    Pointer,
    Record,
    Referent,
    Slice,
    String,
    Text,
    Unreadable,
    Value,
    Void,
)
from lbtrace.values import decoder

FIXED = 6
"""Values in the fixed part of an event: ``LBT_VALUES`` in bpf_src/lbtrace.h."""

UNKNOWN_LENGTH = 0xFFFF_FFFF

FAULT = Unreadable("fault")
"""A value whose memory the kernel program could not read."""

NOT_READ = Unreadable("not read")
"""A part of a value that lies behind what was fetched."""

Names: TypeAlias = Mapping[int, str]
NO_NAMES: Names = {}

Arguments: TypeAlias = Callable[[Event, "bytes | memoryview"], tuple[Argument, ...]]
Result: TypeAlias = Callable[[Event, "bytes | memoryview"], Datum]


class _Fetched:
    """What an event brought, by slot: words, and for those that are in memory their bytes."""

    __slots__ = ("faults", "pieces", "words")

    def __init__(
        self, words: Sequence[int], pieces: dict[int, bytes | memoryview], faults: int
    ) -> None:
        self.words = words
        self.pieces = pieces
        self.faults = faults


_Reader: TypeAlias = Callable[[_Fetched], Datum]
_FIXED_WORDS = attrgetter(*[f"value{n}" for n in range(FIXED)])


def arguments(
    parameters: tuple[Value, ...], fetches: tuple[Fetch, ...], names: Names = NO_NAMES
) -> Arguments:
    """What makes the arguments of a call from its entry.

    ``fetches`` are those of the probe; for a slot without one the event's
    word is taken as it is. ``names`` are those of Go's types, by hash.
    Functions with none and with one simple argument are given their own, for
    speed.
    """
    if not parameters:
        return lambda event, blob: ()
    if _is_plain(parameters, fetches):
        readers = [(value.name, _plain_reader(value)) for value in parameters]
        if len(readers) == 1:
            ((only, read),) = readers
            return lambda event, blob: (Argument(only, read(event)),)
        return lambda event, blob: tuple([Argument(name, read(event)) for name, read in readers])
    gather = _gatherer(fetches)
    made = [(value.name, _reader(value, fetches, names)) for value in parameters]

    def all_of(event: Event, blob: bytes | memoryview) -> tuple[Argument, ...]:
        fetched = gather(event, blob)
        return tuple([Argument(name, read(fetched)) for name, read in made])

    return all_of


def result(value: Value | None, fetches: tuple[Fetch, ...], names: Names = NO_NAMES) -> Result:
    """What makes the result of a call from its return."""
    if value is None or type(value.type) is Void:
        return lambda event, blob: None
    if _is_plain((value,), fetches):
        plain = _plain_reader(value)
        return lambda event, blob: plain(event)
    gather, read = _gatherer(fetches), _reader(value, fetches, names)
    return lambda event, blob: read(gather(event, blob))


def _is_plain(values: tuple[Value, ...], fetches: tuple[Fetch, ...]) -> bool:
    """Whether every value is a word in the fixed part of an event."""
    return all(
        value.slot < FIXED
        and not (value.members or value.offset or value.bit_size)
        and not _in_memory(value.slot, fetches)
        for value in values
    )


def _in_memory(slot: int, fetches: tuple[Fetch, ...]) -> bool:
    return 0 <= slot < len(fetches) and fetches[slot].read in ("string", "bytes")


def _plain_reader(value: Value) -> Callable[[Event], Datum]:
    if value.slot < 0:
        nothing = _nothing(value)
        return lambda event: nothing
    fault = 1 << value.slot
    word = attrgetter(f"value{value.slot}")
    decode = decoder(value.type)
    return lambda event: FAULT if event.faults & fault else decode(word(event))


def _nothing(value: Value) -> Datum:
    """The value of what nothing is fetched for: a struct may have no parts."""
    if isinstance(value.type, Record) and not (value.type.size or value.reason):
        return Fields(value.type.name, ())
    return Unreadable(value.reason)


def _gatherer(fetches: tuple[Fetch, ...]) -> Callable[[Event, bytes | memoryview], _Fetched]:
    beyond = Struct(f"<{max(0, len(fetches) - FIXED)}Q")
    in_memory = [slot for slot in range(len(fetches)) if _in_memory(slot, fetches)]

    def gather(event: Event, blob: bytes | memoryview) -> _Fetched:
        words = _FIXED_WORDS(event)
        position = beyond.size
        faults = event.faults
        if position > len(blob):  # damaged
            return _Fetched(words, {}, (1 << len(fetches)) - 1)
        if position:
            words += beyond.unpack_from(blob)
        pieces: dict[int, bytes | memoryview] = {}
        for slot in in_memory:
            if not faults >> slot & 1:
                size = words[slot] & 0xFFFF_FFFF
                pieces[slot] = blob[position : position + size]
                position += size
        return _Fetched(words, pieces, faults)

    return gather


def _reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    """What gets a value out of what was fetched."""
    if value.members:
        return _COMPOSERS[type(value.type)](value, fetches, names)
    if value.slot < 0:
        nothing = _nothing(value)
        return lambda fetched: nothing
    if isinstance(value.type, String):
        return _string_reader(value.slot)
    if isinstance(value.type, Array):
        return _characters_reader(value, value.type.size, _in_memory(value.slot, fetches))
    return _scalar_reader(value, _in_memory(value.slot, fetches))


def _string_reader(slot: int) -> _Reader:
    fault = 1 << slot

    def read(fetched: _Fetched) -> Datum:
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

    def read(fetched: _Fetched) -> Datum:
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

    def read(fetched: _Fetched) -> Datum:
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


def _record_reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    readers = [(member.name, _reader(member, fetches, names)) for member in value.members]
    name = value.type.name if isinstance(value.type, Record) else ""

    def read(fetched: _Fetched) -> Datum:
        fields = tuple([Argument(name, read(fetched)) for name, read in readers])
        return _whole(Fields(name, fields), [field.value for field in fields])

    return read


def _array_reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    readers = [_reader(member, fetches, names) for member in value.members]
    count = value.type.count if isinstance(value.type, Array) else len(readers)

    def read(fetched: _Fetched) -> Datum:
        elements = tuple([read(fetched) for read in readers])
        return _whole(Elements(elements, count - len(elements)), elements)

    return read


def _pointer_reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    """A pointer that leads nowhere is still an address."""
    address = _scalar_reader(value, _in_memory(value.slot, fetches))
    target = _reader(value.members[0], fetches, names)
    reference = isinstance(value.type, Pointer) and value.type.reference

    def read(fetched: _Fetched) -> Datum:
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


def _slice_reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    """A slice of Go: its length and capacity, and of the elements that were
    fetched those it has."""
    counts, name_of_type = value.members[:2], getattr(value.type, "name", "")
    readers = [(member.name, _reader(member, fetches, names)) for member in counts]
    elements = [_reader(member, fetches, names) for member in value.members[2:]]
    text = len(elements) == 1 and isinstance(value.members[2].type, String)

    def read(fetched: _Fetched) -> Datum:
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


def _interface_reader(value: Value, fetches: tuple[Fetch, ...], names: Names) -> _Reader:
    """An interface of Go: the name of its dynamic type, and what is known of its value.

    The hash of the type lies behind a pointer that is nil where the interface is.
    """
    slot, fault = value.slot, 1 << value.slot
    name_of_type = getattr(value.type, "name", "")
    rest = value.members[1:]
    readers = [(member.name, _reader(member, fetches, names)) for member in rest]

    def read(fetched: _Fetched) -> Datum:
        if fetched.faults & fault:
            return Constant("nil")
        number = fetched.words[slot] & 0xFFFF_FFFF
        kind = names.get(number, "")
        fields = [Argument("type", Constant(kind) if kind else Unreadable("an unknown type"))]
        for name, read in readers:
            if name != "message" or kind in MESSAGE_FIRST:
                fields.append(Argument(name, read(fetched)))
        return Fields(name_of_type, tuple(fields))

    return read


_COMPOSERS: dict[type, Callable[[Value, tuple[Fetch, ...], Names], _Reader]] = {
    Record: _record_reader,
    Array: _array_reader,
    Pointer: _pointer_reader,
    Slice: _slice_reader,
    Interface: _interface_reader,
}
