"""Slices of Go (``runtime.slice``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location, dereferenced, integer, moved
from lbtrace.model import LONG, Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import (
    DEEP_ELEMENTS,
    ELEMENTS,
    PIECE,
    Fetcher,
    KeptFetcher,
    Span,
    pointer_in,
)
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.integer import Integer
from lbtrace.values.interface import Interface
from lbtrace.values.pointer import Pointer
from lbtrace.values.slice import Slice
from lbtrace.values.string import String


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    element = view.target if inside.follows else None
    type = inside.element(element) if element is not None else None
    return Slice(view.written, Pointer("*" + view.name[2:], WORD, type))


class KindFetcher(KeptFetcher):
    """See the module."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        words = [place.word(at)[0] for at in (0, WORD, 2 * WORD)]
        unread = next((word for word in words if isinstance(word, str)), None)
        if unread is not None:
            return Value(name, type.bare(), -1, unread)
        address, length, capacity = (word for word in words if isinstance(word, Fetch))
        return _fetched(fetcher, name, type, pointer_in(address), (length, capacity))

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        length, capacity = (integer(moved(address, at), LONG) for at in (WORD, 2 * WORD))
        return _fetched(fetcher, name, type, dereferenced(address), (length, capacity))


def _fetched(
    fetcher: Fetcher, name: str, type: Type, address: Fetch, words: tuple[Fetch, Fetch]
) -> Value:
    """A slice whose elements are at ``address``; ``words`` fetch its length and capacity."""
    assert isinstance(type, Slice)
    counts = [
        fetcher.take(part.name, part.type, word)
        for part, word in zip(type.named_parts()[1:], words, strict=True)
    ]
    if counts[0].slot < 0:
        return Value(name, type.bare(), -1, TOO_MANY)
    element = getattr(type.element, "target", None)
    first = _first(fetcher, type, element, address, counts[0].slot) if element else ()
    return Value(name, type.bare(), counts[0].slot, members=(*counts, *first))


def _first(
    fetcher: Fetcher, type: Slice, element: Type, address: Fetch, length: int
) -> tuple[Value, ...]:
    """The first elements, within the budget."""
    size = element.size
    if isinstance(element, Interface):
        from lbtrace.recognize.interface import fetch_several

        return fetch_several(fetcher, element, address, length)
    if not element.is_flat():
        return _deep(fetcher, element, address)
    if not 0 < size <= PIECE:
        return ()
    count = min(ELEMENTS, PIECE // size) if size > 1 else PIECE
    piece = fetcher.slot(
        replace(address, read="bytes", limit=count * size, length_from=length, scale=size)
    )
    if piece < 0:
        return ()
    if size == 1 and isinstance(element, Integer) and not element.signed:
        return (Value("", String(type.name), piece),)
    spans = [Span(address, piece, n * size) for n in range(min(count, ELEMENTS))]
    return tuple(_in_piece(fetcher, "", element, span) for span in spans)


def _deep(fetcher: Fetcher, element: Type, address: Fetch) -> tuple[Value, ...]:
    """The first of those elements at ``address`` that hold text, within the budget."""
    if not _is_textual(element):
        return ()
    made = fetcher.optional_values(
        DEEP_ELEMENTS,
        lambda own, n: own.value("", element, Location(memory=moved(address, n * element.size))),
    )
    return tuple(made) if all(value.slot >= 0 for value in made) else ()


def _is_textual(type: Type) -> bool:
    """Whether this is a string, or a record of such and of flat values."""
    parts = type.components()
    if parts is None:
        return type.is_text()
    return all(m.type.is_flat() or _is_textual(m.type) for m in parts)


def _in_piece(fetcher: Fetcher, name: str, type: Type, piece: Span) -> Value:
    """A value in bytes that were fetched; a record with all its members."""
    parts = type.components()
    if not parts:
        return fetcher.in_piece(name, type, piece, 0)
    members = [_in_piece(fetcher, m.name, m.type, piece.inside(m.offset)) for m in parts]
    return Value(name, type.bare(), piece.slot, members=tuple(members))
