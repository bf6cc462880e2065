"""Interface values of Go, errors among them (``runtime.iface``, ``eface``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, Location, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import DEEP_ELEMENTS, TOO_FAR, Fetcher, KeptFetcher, pointer_in
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.integer import Integer
from lbtrace.values.interface import Interface
from lbtrace.values.pointer import Pointer
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
    if type.name == "error":
        # errors.errorString and the like begin with their message.
        if (text := _text(fetcher, data)) >= 0:
            members.append(Value("message", String("string"), text))
    elif (value := fetcher.slot(data)) >= 0:
        members.append(Value("data", DATA, value))
    if len(members) < 2:
        members.append(Value("data", DATA, -1, TOO_MANY))
    return Value(name, type, own, members=tuple(members))


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
