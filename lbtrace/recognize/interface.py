"""Interface values of Go, errors among them (``runtime.iface``, ``eface``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, ErrorPlaces, Lead, Location, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import (
    DEEP_ELEMENTS,
    TOO_FAR,
    UNSIGNED,
    Fetcher,
    KeptFetcher,
    pointer_in,
)
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.integer import Integer
from lbtrace.values.interface import ERROR, Interface, place_name
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record
from lbtrace.values.string import String

TEXT = 64
"""Bytes of an error's message that are fetched."""

SIZE = 16
"""Bytes of an interface."""

HASH, TYPE = 16, 8
"""Offsets of a type's hash in ``abi.Type``, and of the dynamic type in ``abi.ITab``. (That
has the hash, too, but not where it was made at run time: ``runtime.getitab``.)"""

NUMBER, DATA = Integer("uint32", 4, False), Pointer("unsafe.Pointer")


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    first = next(view.members, None)
    return Interface(view.written, first is not None and first.name == "_type")


class KindFetcher(KeptFetcher):
    """The hash of the dynamic type, and the message of an error."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        words = [place.word(at)[0] for at in (0, WORD)]
        unread = next((word for word in words if isinstance(word, str)), None)
        if unread is not None:
            return Value(name, type.bare(), -1, unread)
        table, data = (pointer_in(word) for word in words if isinstance(word, Fetch))
        return _fetched(fetcher, name, type, table, data)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Interface)
        if len(address.derefs) + 2 - type.static > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        table, data = dereferenced(address), dereferenced(address, WORD)
        return _fetched(fetcher, name, type, table, data)


def _fetched(fetcher: Fetcher, name: str, type: Type, table: Fetch, data: Fetch) -> Value:
    """``table`` fetches what leads to the type, which is nil where the interface is, ``data``
    the value."""
    assert isinstance(type, Interface)
    own = fetcher.slot(table)
    kind = fetcher.slot(_hash(table, static=type.static))
    if kind < 0:
        return Value(name, type.bare(), -1, TOO_MANY)
    members = [Value("type", NUMBER, kind)]
    if type.name == ERROR:
        # errors.errorString and the like begin with their message.
        if (text := _text(fetcher, data)) >= 0:
            parts = _parts_of_error(data, fetcher.error_places)
            members += [Value("text", String("string"), text), *_as_fits(fetcher, parts)]
    elif (value := fetcher.slot(data)) >= 0:
        members.append(Value("data", DATA, value))
        if type.static:  # numbers and texts are seldom passed as anything else
            members += _as_fits(fetcher, [lambda own: _scalar(own, data)])
    if len(members) < 2:
        members.append(Value("data", DATA, -1, TOO_MANY))
    return Value(name, type, own, members=tuple(members))


Part: TypeAlias = Callable[[Fetcher], Sequence[Value]]
"""Fetches something of what an interface holds."""


def _as_fits(fetcher: Fetcher, parts: Sequence[Part]) -> Sequence[Value]:
    """As many of the first parts as there is room for."""

    def make(own: Fetcher, count: int) -> Value:
        return Value("", DATA, members=tuple(v for part in parts[:count] for v in part(own)))

    made = fetcher.most_that_fits(len(parts), make, FETCHES)
    return [value for value in made.members if value.slot >= 0] if made else ()


def _scalar(fetcher: Fetcher, data: Fetch, *, numbered: bool = True) -> Sequence[Value]:
    """What ``data`` leads to as text and, if that is ``numbered``, as a number: the name of its
    type says which it is."""
    text = Value("text", String("string"), _text(fetcher, data))
    if not numbered:
        return [text]
    number = fetcher.slot(replace(data, read="integer", optional=True))
    return [Value("value", UNSIGNED, number), text]


def _parts_of_error(data: Fetch, places: ErrorPlaces) -> list[Part]:
    """What is fetched of an error to tell the fields of many structs: its bytes, and the texts and
    errors in the usual places, the most usual first."""
    bytes = replace(data, read="bytes", limit=places.size, optional=True)

    def read_bytes(own: Fetcher) -> Sequence[Value]:
        return [Value("value", Record("", places.size), own.slot(bytes))]

    def read_text(own: Fetcher, at: int) -> Sequence[Value]:
        text = _text(own, moved(data, at))
        return [Value(place_name("text", at), String("string"), text)]

    def read_error(own: Fetcher, at: int, *, numbered: bool) -> Sequence[Value]:
        table, held = dereferenced(data, at), dereferenced(data, at + TYPE)
        kind = own.slot(replace(_hash(table, static=False), optional=True))
        members = (Value("type", NUMBER, kind), *_scalar(own, held, numbered=numbered))
        slot = own.slot(bytes) if min(member.slot for member in members) >= 0 else -1
        inner = Value("", Interface(ERROR, False), slot, offset=at, members=members)
        return [replace(inner, name=place_name(ERROR, at))]

    def read_type(own: Fetcher, at: int) -> Sequence[Value]:
        kind = own.slot(replace(_hash(dereferenced(data, at), static=True), optional=True))
        return [Value(place_name("type", at), NUMBER, kind)]

    read_lead: dict[Lead, Callable[..., Sequence[Value]]] = {
        "text": read_text,
        "error": partial(read_error, numbered=False),
        "type": read_type,
        "numbered error": partial(read_error, numbered=True),
    }
    leads = [partial(read_lead[kind], at=at) for at, kind in places.leads]
    return [read_bytes, *leads] if places.size else []


def fetch_several(
    fetcher: Fetcher, type: Interface, address: Fetch, length: int
) -> tuple[Value, ...]:
    """Return the first of the interfaces at ``address``, within the budget: what each holds is
    fetched as a number and as text, and the name of its type says which of them it is. Slot
    ``length`` has their number."""
    piece = fetcher.slot(
        replace(
            address,
            read="bytes",
            limit=DEEP_ELEMENTS * SIZE,
            length_from=length,
            scale=SIZE,
            optional=True,
        )
    )
    if piece < 0:
        return ()

    def make(own: Fetcher, n: int) -> Value:
        at = n * SIZE
        table, data = dereferenced(address, at), dereferenced(address, at + TYPE)
        kind = own.slot(_hash(table, static=type.static))
        held = own.slot(replace(data, read="integer"))
        text = _text(own, data)
        members = [Value("type", NUMBER, kind)]
        members.append(Value("data", DATA, piece, offset=at + TYPE))
        members.append(Value("value", Integer("uint64", 8, False), held))
        members.append(Value("text", String("string"), text))
        return Value("", type, piece, offset=at, members=tuple(members))

    made = fetcher.optional_values(DEEP_ELEMENTS, make)
    return tuple(v for v in made if all(member.slot >= 0 for member in v.members))


def _hash(table: Fetch, *, static: bool) -> Fetch:
    """The hash of the dynamic type to which ``table``, the first word of an interface, leads."""
    described = table if static else dereferenced(table, TYPE)
    return replace(moved(described, HASH), read="integer", size=4)


def _text(fetcher: Fetcher, data: Fetch) -> int:
    """The slot of the text whose address and length lie at ``data``."""
    length = fetcher.slot(replace(moved(data, 8), read="integer"))
    if length < 0:
        return -1
    start = dereferenced(data)
    return fetcher.slot(replace(start, read="bytes", limit=TEXT, length_from=length, optional=True))
