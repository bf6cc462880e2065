"""Decodes events to values, from what was fetched, as the plan says.

A probe's values are worked out once, into functions that take an event and
the bytes that accompany it. Registers and integers are in the event itself
(`Event`), or lead its bytes from the seventh on; strings and pieces of memory
follow, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeAlias

from lbtrace.calls.payload import Blob, Context, collector, lies_in_memory
from lbtrace.model import Argument, Datum, Event, Fetch, Value
from lbtrace.model.wire_limits import VALUES
from lbtrace.values.base import Fetched, Reader, decoder
from lbtrace.values.datum import FAULT, UNDECODABLE, Form
from lbtrace.values.pointer import TABLE_OF

INSTRUCTION_POINTERS = frozenset({"ip", "pc"})

NO_CONTEXT = Context()

DECODING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What composing a value raises where a damaged capture describes an impossible one: a record
of a number, elements of no size. It is shown as `UNDECODABLE`."""

Arguments: TypeAlias = Callable[[Event, Blob], tuple[Argument, ...]]
Result: TypeAlias = Callable[[Event, Blob], Datum]


def arguments(
    parameters: tuple[Value, ...], fetches: tuple[Fetch, ...], around: Context = NO_CONTEXT
) -> Arguments:
    """Build the decoder that turns an entry event into arguments.

    ``fetches`` are those of the probe; for a slot without one the event's
    word is taken as it is. Functions with none and with one simple argument
    are given their own, for speed.
    """
    pointer = instruction_pointer(fetches)
    if not parameters and pointer < 0:
        return lambda event, blob: ()
    if pointer < 0 and is_plain(parameters, fetches):
        readers = [(value.name, _plain_reader(value)) for value in parameters]
        if len(readers) == 1:
            ((only, read),) = readers
            return lambda event, blob: (Argument(only, read(event)),)
        return lambda event, blob: tuple([Argument(name, read(event)) for name, read in readers])
    collect = collector(fetches)
    readers_of = Readers(fetches, around)
    made = [(value.name, readers_of.reader(value)) for value in parameters]

    def all_of(event: Event, blob: Blob) -> tuple[Argument, ...]:
        fetched = collect(event, blob)
        if pointer >= 0:
            around.namer.learn(event.pid, around.binary, fetched.words[pointer], around.address)
        try:
            return tuple([Argument(name, read(fetched)) for name, read in made])
        except DECODING_ERRORS:
            return tuple([Argument(name, _read_anyway(read, fetched)) for name, read in made])

    if any(value.type.spreads for value in parameters):
        return lambda event, blob: _spread(all_of(event, blob))
    return all_of


def _spread(read: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The arguments that were read, the last of which stands for several."""
    *own, last = read
    made_of = last.value.expression() if isinstance(last.value, Form) else None
    parts = made_of[1] if made_of else (last.value,)
    return (*own, *[Argument("", part) for part in parts])


def instruction_pointer(fetches: tuple[Fetch, ...]) -> int:
    """Return the slot of the instruction pointer; -1 where it is not fetched."""
    return next((n for n, f in enumerate(fetches) if _is_pointer(f)), -1)


def _is_pointer(fetch: Fetch) -> bool:
    """Whether a fetch gets the instruction pointer itself, not what lies relative to it."""
    return fetch.register in INSTRUCTION_POINTERS and fetch == Fetch(register=fetch.register)


def result(value: Value | None, fetches: tuple[Fetch, ...], around: Context = NO_CONTEXT) -> Result:
    """Build the decoder that turns a return event into the result."""
    if value is None or not value.type.has_values:
        return lambda event, blob: None
    if is_plain((value,), fetches):
        plain = _plain_reader(value)
        return lambda event, blob: plain(event)
    collect, read = collector(fetches), Readers(fetches, around).reader(value)
    return lambda event, blob: _read_anyway(read, collect(event, blob))


def result_of_tail(
    value: Value | None, fetches: tuple[Fetch, ...], around: Context = NO_CONTEXT
) -> Result:
    """Build the decoder of the result of a call that has jumped to another function, from the event
    of that one's return, which may not bring what is needed."""
    if value is None or is_fetched(value, fetches):
        return result(value, fetches, around)
    unknown = value.type.absent(NOT_FETCHED)
    return lambda event, blob: unknown


NOT_FETCHED = "not fetched where the function returns to which it jumped"


def is_fetched(value: Value | None, fetches: tuple[Fetch, ...]) -> bool:
    """Return whether there are ``fetches`` for a value, if it needs any."""
    return value is None or bool(fetches) or not _needs_fetches(value)


def _needs_fetches(value: Value) -> bool:
    return value.slot >= 0 or any(map(_needs_fetches, value.members))


def _read_anyway(read: Reader, fetched: Fetched) -> Datum:
    try:
        return read(fetched)
    except DECODING_ERRORS:
        return UNDECODABLE


def is_plain(values: tuple[Value, ...], fetches: tuple[Fetch, ...]) -> bool:
    """Return whether every one of the ``values`` is a word in the fixed part of an event, and
    nothing else."""
    return all(
        value.slot < VALUES
        and (value.slot < 0 or value.type.is_number)
        and not (value.members or value.offset or value.bit_size or value.type.code)
        and (value.slot < 0 or not value.reason)
        and not lies_in_memory(value.slot, fetches)
        for value in values
    )


def _plain_reader(value: Value) -> Callable[[Event], Datum]:
    if value.slot < 0:
        nothing = value.type.absent(value.reason)
        return lambda event: nothing
    fault = 1 << value.slot
    word = attrgetter(f"value{value.slot}")
    decode = decoder(value.type)
    return lambda event: FAULT if event.faults & fault else decode(word(event))


class Readers:
    """Makes the readers of a probe's values, which ``fetches`` get; ``around`` is what is known
    besides the events."""

    def __init__(self, fetches: tuple[Fetch, ...], around: Context) -> None:
        self._fetches = fetches
        self._namer = around.namer
        self.names, self.held = around.names, around.held

    def reader(self, value: Value) -> Reader:
        """Build the reader of a value, or of a part of one."""
        try:
            return value.type.reader(value, self)
        except DECODING_ERRORS:
            return lambda fetched: UNDECODABLE

    def is_piece(self, slot: int) -> bool:
        """Return whether a slot holds bytes from memory, no word."""
        return lies_in_memory(slot, self._fetches)

    def symbol(self, pid: int, address: int) -> str:
        """See `lbtrace.values.base.Probe`."""
        return self._namer.name(pid, address)

    def class_reader(self, table: Value) -> Callable[[Fetched], str]:
        """See `lbtrace.values.base.Probe`."""
        address, name = self.reader(table), self._namer.name

        def read(fetched: Fetched) -> str:
            there = address(fetched)
            found = name(fetched.pid, there) if isinstance(there, int) else ""
            return found.removeprefix(TABLE_OF) if found.startswith(TABLE_OF) else ""

        return read
