"""``std::vector`` of libstdc++ (``bits/stl_vector.h``) and libc++ (``vector``), and what is fetched
of all records that keep their elements elsewhere."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, Location, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import (
    DEEP_ELEMENTS,
    ELEMENTS,
    PIECE,
    TOO_FAR,
    Fetcher,
    KeptFetcher,
    Span,
    pointer_in,
)
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, parts_by_name
from lbtrace.values import Type
from lbtrace.values.vector import Vector

NESTING = 6
ENDS = (("_M_start", "_M_finish"), ("__begin_", "__end_"))


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    found = parts_by_name(view, NESTING)
    for begin, end in ENDS:
        if begin in found and end in found:
            element = found[begin][1].type.target
            return make_vector(view, element, inside, found[begin][0], end=found[end][0])
    return None


def make_vector(
    view: View, element: View | None, inside: Inside, pointer: int, length: int = -1, end: int = -1
) -> Vector | None:
    """Return the type of a record whose elements are at ``pointer``. Of elements that are only
    declared, as clang's ``-flimit-debug-info`` leaves types that a program never makes, no size is
    known: the ends of the vector tell only whether there are any."""
    step = element.size if element is not None else 0
    if element is None or not view.size or not (step or end >= 0):
        return None
    return Vector(view.written, view.size, inside.element(element), step, pointer, length, end)


class KindFetcher(KeptFetcher):
    """What is fetched of a vector: where its elements are, how many, and the first."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        assert isinstance(type, Vector)
        start, length = (place.word(at)[0] for at in (type.pointer, type.length))
        if isinstance(start, str) or isinstance(length, str) or type.length < 0:
            reason = place.why_unread(type.pointer, type.length)
            return Value(name, type.bare(), -1, reason)
        return _elements(fetcher, name, type, pointer_in(start), fetcher.slot(length), type.step)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Vector)
        start = dereferenced(address, type.pointer)
        if len(start.derefs) > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        if type.end < 0:
            length = fetcher.slot(replace(moved(address, type.length), read="integer", size=WORD))
            return _elements(fetcher, name, type, start, length, type.step)
        begin, end = fetcher.slot(start), fetcher.slot(dereferenced(address, type.end))
        if min(begin, end) < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        length = fetcher.slot(Fetch(base="slot", earlier=end, plus=begin, factor=-1))
        return _elements(fetcher, name, type, start, length, 1)


def _elements(
    fetcher: Fetcher, name: str, type: Vector, start: Fetch, length: int, scale: int
) -> Value:
    """The first elements of those at ``start``: as many times ``scale`` bytes as
    the slot ``length`` says."""
    if length < 0:
        return Value(name, type.bare(), -1, TOO_MANY)
    if not type.step:
        ends = replace(start, read="bytes", limit=1, length_from=length, scale=1)
        return Value(name, type.bare(), fetcher.slot(replace(ends, optional=fetcher.is_optional)))
    deep = not type.element.is_flat()
    most = min(DEEP_ELEMENTS if deep else ELEMENTS, PIECE // type.step)
    bytes_there = replace(start, read="bytes", limit=most * type.step, length_from=length)
    piece = fetcher.slot(replace(bytes_there, scale=scale, optional=fetcher.is_optional))
    if piece < 0:
        return Value(name, type.bare(), -1, TOO_MANY)

    def element(own: Fetcher, n: int) -> Value:
        return own.in_piece("", type.element, Span(start, piece, n * type.step), 0)

    elements = (
        fetcher.optional_values(most, element)
        if deep
        else [element(fetcher, n) for n in range(most)]
    )
    while elements and elements[-1].slot < 0:
        elements.pop()
    return Value(name, type.bare(), piece, members=tuple(elements))
