"""Strings of Go (``runtime.stringStruct``), and what is fetched of all text that is kept as a
record, or in one."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Location, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher, KeptFetcher, pointer_in
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.string import String


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    return String(view.written, 2 * WORD, 0, WORD)


class KindFetcher(KeptFetcher):
    """See the module."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        assert isinstance(type, String)
        start, length = (place.word(at)[0] for at in (type.pointer, type.length))
        if isinstance(start, str) or isinstance(length, str) or type.length < 0:
            return Value(name, type, -1, place.why_unread(type.pointer, type.length))
        return fetcher.counted(name, type, pointer_in(start), length)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, String)
        start = dereferenced(address, type.pointer)
        length = replace(moved(address, type.length), read="integer", size=WORD)
        if not type.short:
            return fetcher.counted(name, type, start, length)
        whole = fetcher.slot(replace(address, read="bytes", limit=type.size))
        with fetcher.as_optional():
            long = fetcher.counted("", type, start, length)
        if whole < 0 or long.slot < 0:
            return Value(name, type, -1, TOO_MANY)
        return Value(name, type, whole, members=(Value("", type, whole), long))
