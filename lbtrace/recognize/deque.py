"""``std::deque`` of libstdc++ (``bits/stl_deque.h``) and libc++ (``deque``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import (
    DEEP_ELEMENTS,
    ELEMENTS,
    PIECE,
    Fetcher,
    KeptFetcher,
    Span,
)
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View, find_named
from lbtrace.values import Type
from lbtrace.values.deque import Deque
from lbtrace.values.map import COUNT
from lbtrace.values.opaque import Opaque

CUR, FIRST, LAST, NODE = (WORD * n for n in range(4))
"""Members of an iterator of libstdc++."""

BLOCK, LARGE, OF_LARGE, OF_SMALL = 512, 256, 16, 4096
"""Bytes of a block of libstdc++, which holds one element at least; of libc++ the size from which
on elements are large, the number of such ones in a block, and bytes of a block of smaller ones."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    element = next(iter(view.arguments), None)
    if element is None or not element.size:
        return None
    step = element.size
    words: tuple[int, ...]
    if (found := find_named(view, ("_M_start", "_M_finish"))) is not None:
        start, finish = (at for at, _ in found)
        words = (start, start + LAST, start + NODE, finish, finish + FIRST, finish + NODE)
        block = max(1, BLOCK // step)
    elif (found := find_named(view, ("__map_", "__start_", "__size_"))) is not None:
        words = (found[1][0], found[2][0])
        block = OF_LARGE if step >= LARGE else OF_SMALL // step
    else:
        return None
    return Deque(view.written, view.size, inside.element(element), step, block, words)


class KindFetcher(KeptFetcher):
    """What is fetched: the words that tell where elements are, and the first in their block."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Deque)
        record = replace(address, read="bytes", limit=min(type.size, PIECE))
        whole = fetcher.slot(replace(record, optional=fetcher.is_optional))
        if whole < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        words = Value(
            "",
            Opaque(""),
            whole,
            members=tuple(Value("", COUNT, whole, "", at) for at in type.words),
        )
        elements = _elements(fetcher, type, address) if len(address.derefs) < DEREFS else []
        return Value(name, type.bare(), whole, members=(words, *elements))


def _elements(fetcher: Fetcher, type: Deque, address: Fetch) -> list[Value]:
    """The first elements of those in the first block."""
    flat = type.element.is_flat()
    most = min(ELEMENTS if flat else DEEP_ELEMENTS, max(1, PIECE // type.step))
    first, end = type.words[:2]
    if len(type.words) > 2:
        start = dereferenced(address, first)
        begin, behind = fetcher.slot(start), fetcher.slot(dereferenced(address, end))
        if min(begin, behind) < 0:
            return []
        length = fetcher.slot(Fetch(base="slot", earlier=behind, plus=begin, factor=-1))
        scale = 1
    else:
        # The table begins with the first block, or the one before: it comes first in the record.
        block = fetcher.slot(dereferenced(dereferenced(address, WORD)))
        number = fetcher.slot(replace(moved(address, first), read="integer", size=WORD))
        length = fetcher.slot(replace(moved(address, end), read="integer", size=WORD))
        if min(block, number) < 0:
            return []
        start = Fetch(base="slot", earlier=block, plus=number, factor=type.step)
        scale = type.step
    if length < 0:
        return []
    piece = fetcher.slot(
        replace(
            start,
            read="bytes",
            limit=most * type.step,
            length_from=length,
            scale=scale,
            optional=True,
        )
    )
    if piece < 0:
        return []

    def element(own: Fetcher, n: int) -> Value:
        return own.in_piece("", type.element, Span(start, piece, n * type.step), 0)

    if flat:
        return [element(fetcher, n) for n in range(most)]
    found = fetcher.optional_values(most, element)
    while found and found[-1].slot < 0:
        found.pop()
    return found
