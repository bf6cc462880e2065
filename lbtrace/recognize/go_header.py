"""Maps and channels of Go: pointers to headers that begin with the number of elements."""

from __future__ import annotations

from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.go_map import COUNT
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    header = Record(view.written, COUNT.type.size, (COUNT,))
    return Pointer(view.written, COUNT.type.size, header, "nil", reference=True)


def fetch_header(fetcher: Fetcher, name: str, type: Pointer, word: Fetch) -> Value:
    """Return a map or channel. ``word`` fetches the pointer to its header."""
    assert type.target is not None
    pointer, header = fetcher.slot(word), fetcher.in_memory("", type.target, word, 0)
    if header.slot < 0:
        return Value(name, type.bare(), pointer, header.reason)
    return Value(name, type.bare(), pointer, members=(header,))
