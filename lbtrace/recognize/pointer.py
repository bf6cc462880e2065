"""Pointers and references: addresses, functions, C strings, and what they lead to."""

from __future__ import annotations

import re

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, Location, dereferenced, integer
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import (
    MEMBERS,
    PIECE,
    TOO_FAR,
    Fetcher,
    NumberFetcher,
    Span,
    pointer_in,
)
from lbtrace.recognize.view import View
from lbtrace.recognize.wide_text import fetch_pointed, find_unit
from lbtrace.values import Type
from lbtrace.values.map import COUNT
from lbtrace.values.pointer import NULLPTR, TABLE, Pointer
from lbtrace.values.record import Record

SHOWN = re.compile(r"const |(?:std::)?(?:atomic|span|array)\b")
"""Types of references to numbers and arrays that are shown: functions may fill others."""

THROUGH = 5
"""Fetches for a record to which a reference leads, unless more is asked for: each makes calls
cost more."""

VPTR = "_vptr"
"""What compilers call the address of a table of virtual functions, as a member."""

NULL = {"go": "nil"}
"""By language: what the address 0 is shown as, if not as a number."""


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    code, single = view.leads_to_code, view.is_reference
    aim = None if code else view.target
    target = None if aim is None or aim.form == "nothing" else inside.target(aim, single=single)
    null = NULLPTR if NULLPTR in view.name else NULL.get(view.language, "")
    objects = aim is not None and aim.form == "record" and aim.is_polymorphic
    return Pointer(view.written, 8, target, null, code=code, single=single, polymorphic=objects)


class KindFetcher(NumberFetcher):
    """What is fetched of a pointer: text, what it leads to, or just the address."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        word, into = place.word()
        if isinstance(word, str) or into:
            return super().in_words(fetcher, name, type, place, depth)
        return _led(fetcher, name, type, pointer_in(word), depth)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        return _led(fetcher, name, type, dereferenced(address), depth)

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        address = super().in_piece(fetcher, name, type, piece, depth)
        if type.is_flat() and not _leads_on(type, depth):
            return address
        made = fetcher.in_memory(name, type, piece.start, depth)
        return made if made.slot >= 0 else replace(address, reason=made.reason)


def _led(fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int) -> Value:
    """A pointer that ``address`` fetches."""
    if len(address.derefs) > DEREFS:
        return Value(name, type.bare(), -1, TOO_FAR)
    assert isinstance(type, Pointer)
    if type.reference:
        # Imported here because only Go needs it.
        from lbtrace.recognize.go_header import fetch_header

        return fetch_header(fetcher, name, type, address)
    if type.is_text():
        from lbtrace.values.string import String

        string = replace(fetcher.string(address), optional=fetcher.is_optional)
        return fetcher.take(name, String(type.name), string)
    target = type.target
    if not type.single and (unit := find_unit(target)):
        return fetch_pointed(fetcher, name, type, address, unit)
    if target is not None and type.single and target.through:
        return fetcher.in_memory(name, replace(target, name=type.name), address, depth)  # type: ignore[type-var]
    made = fetcher.take(name, type, address)
    if made.slot >= 0 and target is not None:
        made = _followed(fetcher, made, type, address, depth)
    return _with_table(fetcher, made, address) if type.polymorphic else made


def _with_table(fetcher: Fetcher, made: Value, address: Fetch) -> Value:
    """A pointer to an object with the address of its table of virtual functions, if there is
    room."""
    if made.slot < 0 or made.reason:
        return made
    word = replace(integer(address, COUNT), optional=True)
    found = fetcher.optional_values(1, lambda own, _: own.take(TABLE, COUNT, word))
    members = tuple(each for each in found if each.slot >= 0)
    return replace(made, members=(*made.members, *members))


def _followed(fetcher: Fetcher, made: Value, type: Pointer, address: Fetch, depth: int) -> Value:
    """The pointer ``made`` with what it leads to, if that is shown."""
    assert type.target is not None
    if type.single and depth <= 0:
        shown = _by_default(fetcher, type, type.target, address)
        return replace(made, members=(shown,)) if shown and shown.slot >= 0 else made
    if not _leads_on(type, depth):
        return made
    found = fetcher.in_memory("", type.target, address, depth - 1)
    followed = found.slot >= 0 or found.members
    return replace(made, members=(found,)) if followed else replace(made, reason=found.reason)


def _by_default(fetcher: Fetcher, type: Pointer, target: Type, address: Fetch) -> Value | None:
    """What a reference leads to, as far as all other values leave room for it: a number that cannot
    change, a record."""
    if isinstance(target, Record) and not type.name.startswith("&"):  # as Rust writes its own
        return _record(fetcher, target, address)
    if not (target.is_known and SHOWN.match(type.name)):
        return None
    made = fetcher.optional_values(1, lambda own, _: own.in_memory("", target, address, 0))
    return made[0] if made else None


def _record(fetcher: Fetcher, target: Record, address: Fetch) -> Value | None:
    """As many members of a record as there is room for: those that were not fetched are left
    out."""
    own = [m for m in target.members if not m.name.startswith(VPTR)]
    near = [m for m in own if m.offset + m.type.size <= PIECE or not m.type.is_flat()]
    more = target.more + len(own)

    def make(own: Fetcher, count: int) -> Value:
        part = replace(target, members=tuple(near[:count]), more=more - count)
        return own.in_memory("", part, address, 0)

    return fetcher.most_that_fits(min(len(near), MEMBERS), make, THROUGH)


def _leads_on(type: Type, depth: int) -> bool:
    """Whether a pointer is to be followed: text always, the rest ``depth`` deep."""
    assert isinstance(type, Pointer)
    if type.target is None:
        return False
    return type.is_text() or (depth > 0 and type.target.is_known)
