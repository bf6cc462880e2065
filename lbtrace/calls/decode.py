"""Events to values: what was fetched, put together as the plan says.

A probe's values are worked out once, into functions that take an event and
the bytes that accompany it. Registers and integers are in the event itself
(`Event`), or lead its bytes from the seventh on; strings and pieces of memory
follow, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeAlias

from lbtrace.calls.gathering import FIXED, Context, Fetched, gatherer, lies_in_memory
from lbtrace.calls.pieces import (
    FAULT,
    Reader,
    absent,
    characters_reader,
    scalar_reader,
    string_reader,
)
from lbtrace.model import (
    Address,
    Argument,
    Array,
    Datum,
    Event,
    Fetch,
    Pointer,
    String,
    Type,
    Value,
    Vector,
    Void,
)
from lbtrace.values import decoder

INSTRUCTION_POINTERS = frozenset({"ip", "pc"})

NO_CONTEXT = Context()

Arguments: TypeAlias = Callable[[Event, "bytes | memoryview"], tuple[Argument, ...]]
Result: TypeAlias = Callable[[Event, "bytes | memoryview"], Datum]


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
        nothing = absent(value)
        return lambda event: nothing
    fault = 1 << value.slot
    word = attrgetter(f"value{value.slot}")
    decode = decoder(value.type)
    return lambda event: FAULT if event.faults & fault else decode(word(event))


def _reader(value: Value, fetches: tuple[Fetch, ...], around: Context) -> Reader:
    """What gets a value out of what was fetched."""
    if value.members or (value.slot >= 0 and isinstance(value.type, Vector)):
        from lbtrace.calls.composing import COMPOSERS  # late: many traces show words only

        compose = COMPOSERS[type(value.type)]
        return compose(value, lambda part: _reader(part, fetches, around), around.names)
    if value.slot < 0:
        nothing = absent(value)
        return lambda fetched: nothing
    if isinstance(value.type, String):
        return string_reader(value.slot)
    if isinstance(value.type, Array):
        return characters_reader(value, value.type.size, lies_in_memory(value.slot, fetches))
    scalar = scalar_reader(value, lies_in_memory(value.slot, fetches))
    return _code_reader(scalar, around) if _is_code(value.type) else scalar


def _code_reader(pointer: Reader, around: Context) -> Reader:
    """A pointer to a function, by its name."""

    def read(fetched: Fetched) -> Datum:
        where = pointer(fetched)
        return around.namer.name(fetched.pid, where) if isinstance(where, Address) else where

    return read
