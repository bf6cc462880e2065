"""Maps and channels of Go: pointers to headers that begin with the number of elements."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer
from lbtrace.values.record import Record

WORD = 8
COUNT = Member("len", Integer("int", WORD, True), 0)
"""The number of elements, which headers begin with in all versions: ``runtime.hmap.count``,
``maps.Map.used``, ``runtime.hchan.qcount``."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    header = Record(view.written, WORD, (COUNT,))
    return Pointer(view.written, WORD, header, "nil", reference=True)


def fetch_count(fetcher: Fetcher, name: str, type: Pointer, word: Fetch) -> Value:
    """Return a map or channel. ``word`` fetches the pointer to its header."""
    assert isinstance(type.target, Record)
    (member,) = type.target.members
    header, count = fetcher.slot(word), fetcher.slot(replace(word, read="integer"))
    if count < 0:
        return Value(name, type.bare(), header, TOO_MANY)
    length = Value(member.name, member.type, count)
    inside = Value("", type.target.bare(), count, members=(length,))
    return Value(name, type.bare(), header, members=(inside,))
