"""Text of wide characters: pointers to these, arrays, and ``std::wstring`` and its like."""

from __future__ import annotations

import re

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, WORD, Location, dereferenced, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize.fetcher import TOO_FAR, Fetcher, NumberFetcher, Span, pointer_in
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.values import Type
from lbtrace.values.wide_text import WideText

NAMES = re.compile(r"(?:(?:const|volatile) )*(?:wchar_t|char(?:16|32)_t)(?: (?:const|volatile))*")


def find_unit(type: Type | None) -> int:
    """Return the size of a wide character of C or C++; 0 of other types."""
    if type is None or type.size not in (2, 4) or not NAMES.fullmatch(type.name):
        return 0
    return type.size


def is_wide(type: Type) -> bool:
    """Return whether a value is an array of such characters, an address that leads to some, or a
    string of them."""
    if isinstance(type, WideText):
        return True
    first = type.element_at(0)
    return find_unit(type.target if first is None else first.type) > 0


def fetch_pointed(fetcher: Fetcher, name: str, type: Type, address: Fetch, unit: int) -> Value:
    """Return the text that a pointer leads to, which ``address`` fetches: as much of it as is
    shown, as only its reader finds the NUL."""
    shown = WideText(type.name, WORD, unit, leads=True)
    return fetcher.take(name, shown, _bytes(fetcher, address, unit))


def _bytes(fetcher: Fetcher, address: Fetch, unit: int) -> Fetch:
    limit = min(fetcher.text_limit * unit, 4095 // unit * unit)
    return replace(address, read="bytes", limit=limit, optional=fetcher.is_optional)


def _counted(fetcher: Fetcher, name: str, type: WideText, start: Fetch, length: Fetch) -> Value:
    """Text at an address, of a length in characters that is fetched before."""
    if max(len(start.derefs), len(length.derefs)) > DEREFS:
        return Value(name, type, -1, TOO_FAR)
    counted = fetcher.slot(length)
    if counted < 0:
        return Value(name, type, -1, TOO_MANY)
    text = replace(_bytes(fetcher, start, type.unit), length_from=counted, scale=type.unit)
    return fetcher.take(name, type, text)


class KindFetcher(NumberFetcher):
    """See the module."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        assert isinstance(type, WideText)
        start, length = (place.word(at)[0] for at in (type.pointer, type.length))
        if type.pointer < 0 or isinstance(start, str) or isinstance(length, str):
            return Value(name, type, -1, place.why_unread(0))
        return _counted(fetcher, name, type, pointer_in(start), length)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, WideText)
        if type.pointer < 0:
            whole = _bytes(fetcher, address, type.unit)
            return fetcher.take(name, type, replace(whole, limit=min(type.size, whole.limit)))
        start = dereferenced(address, type.pointer)
        length = replace(moved(address, type.length), read="integer", size=WORD)
        if not type.short:
            return _counted(fetcher, name, type, start, length)
        record = fetcher.slot(replace(address, read="bytes", limit=type.size))
        with fetcher.as_optional():
            long = _counted(fetcher, "", type, start, length)
        if record < 0 or long.slot < 0:
            return Value(name, type, -1, TOO_MANY)
        return Value(name, type, record, members=(Value("", type, record), long))

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        if type.is_flat():
            return Value(name, type, piece.slot, offset=piece.offset)
        return self.in_memory(fetcher, name, type, piece.start, depth)
