"""Arrays: their first elements, or the text in them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import ELEMENTS, Fetcher, PartsFetcher, Span, Take, compose
from lbtrace.recognize.view import View
from lbtrace.recognize.wide_text import find_unit
from lbtrace.values import Type
from lbtrace.values.array import Array
from lbtrace.values.string import String
from lbtrace.values.wide_text import WideText

TEXT_ELEMENTS = 16
"""Characters of a text that are fetched one by one, where it lies in several pieces."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    counts, target = view.counts, view.target
    if not counts or target is None:
        return None
    is_open = view.is_open
    if is_open:
        counts = (0, *counts[1:])
    element: Type = inside.part(target)
    size = target.size
    if None in counts or not target.is_sized:
        return None
    for at, count in reversed([*enumerate(counts)]):
        assert count is not None
        size *= count
        name = view.written
        if at:  # what is within has no name of its own
            name = f"{target.written} {''.join(f'[{each}]' for each in counts[at:])}"
        element = Array(name, size, element, count, is_open and not at)
    return element


class KindFetcher(PartsFetcher):
    """What is fetched of an array: its first elements, or the bytes of its characters."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        assert isinstance(type, Array)
        count = min(type.count, ELEMENTS)
        return compose(name, type, [take(type.part_at(n)) for n in range(count)])

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        assert isinstance(type, Array)
        if type.is_open or not (type.element.is_char() and type.count):
            return super().in_words(fetcher, name, type, place, depth)
        held = [place.word(at) for at in range(min(type.count, TEXT_ELEMENTS))]
        word, into = held[0]
        if len(held) == type.count and _is_one_word(held):
            if isinstance(word, str):
                return Value(name, type.bare(), -1, word)
            return fetcher.take(name, type.bare(), word, into)
        parts = [type.element_at(at) for at in range(len(held))]
        return compose(
            name,
            type,
            [fetcher.in_words("", m.type, place.inside(m.offset), depth) for m in parts],
        )

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        assert isinstance(type, Array)
        if (unit := find_unit(type.element)) and type.size > WORD:
            shown = WideText(type.name, type.size, unit)
            return fetcher.in_piece(name, shown, piece, depth)
        if type.is_text():
            return self.in_memory(fetcher, name, type, piece.start, depth)
        if type.element.is_char() and type.count:
            return Value(name, type.bare(), piece.slot, offset=piece.offset)
        return super().in_piece(fetcher, name, type, piece, depth)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, Array)
        if not type.is_open and (unit := find_unit(type.element)) and type.size:
            shown = WideText(type.name, type.size, unit)
            return fetcher.in_memory(name, shown, address, depth)
        if not type.is_text():
            return super().in_memory(fetcher, name, type, address, depth)
        text = replace(fetcher.string(address), optional=fetcher.is_optional)
        return fetcher.take(name, String(type.name), text)


def _is_one_word(held: Sequence[tuple[Fetch | str, int]]) -> bool:
    """Whether bytes, each in a word and at a position in it, follow each other in one word."""
    word, into = held[0]
    return all(each == (word, into + at) for at, each in enumerate(held))
