"""Types of which nothing is known but the name: nothing is fetched of them."""

from __future__ import annotations

from lbtrace.abi.locations import Location
from lbtrace.model import Fetch, Value
from lbtrace.recognize.fetcher import Fetcher, NumberFetcher, Span
from lbtrace.values import Type


class KindFetcher(NumberFetcher):
    """See the module."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        word, _ = place.word()
        return Value(name, type, -1, word if isinstance(word, str) else _reason(type))

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        return Value(name, type, -1, _reason(type))

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        return Value(name, type, -1, _reason(type))


def _reason(type: Type) -> str:
    return getattr(type, "reason", "")
