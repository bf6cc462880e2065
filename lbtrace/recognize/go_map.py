"""Maps of Go, up to 1.23 (``runtime/map.go``) and since (``internal/runtime/maps``); and what is
fetched of those of Rust.

Where elements are depends on hashes, which the kernel program does not compute. It reads the first
slots of the first group, which a map of up to eight elements of Go fills in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.locations import DEREFS, dereferenced, integer, moved
from lbtrace.model import Fetch, Value
from lbtrace.recognize import Inside
from lbtrace.recognize.fetcher import DEEP_ELEMENTS, PIECE, Fetcher, KeptFetcher, Span
from lbtrace.recognize.slots import TOO_MANY
from lbtrace.recognize.view import MemberView, View
from lbtrace.values import Type
from lbtrace.values.base import Member
from lbtrace.values.go_map import COUNT, STATES, GoMap
from lbtrace.values.opaque import Opaque
from lbtrace.values.pointer import Pointer

FLAT_ELEMENTS = 6
"""Slots that are read where a key and a value take no fetches beside their own."""

SCATTERED = 8
"""Slots that are read where those in use may be any: as many as have their states in a word."""

MOST = 24
"""Fetches that a map takes, at most."""


class Layout(NamedTuple):
    """The way from a header to the first group, by members, of which all but the last lead there
    by pointers; the member that is 0 where the group is there; and the states of slots in use."""

    way: Sequence[str]
    large: str
    least: int
    most: int


LAYOUTS = (
    Layout(("dirPtr", "groups", "data"), "dirLen", 0, 0x7F),  # a table's first group, but for types
    Layout(("buckets",), "", 5, 0xFF),  # what is below minTopHash says why a slot is empty
)


def recognize(view: View, inside: Inside) -> Type | None:
    """See `lbtrace.recognize`."""
    pointed = _pointed(view)
    if pointed is None or len(view.arguments) != 2:
        return None
    members = _members(pointed)
    layout = next((each for each in LAYOUTS if each.way[0] in members), None)
    if layout is None:
        return None
    group = _group(members, layout)
    places = _places(group) if group else None
    if places is None or [view.size for _, _, view in places] != [v.size for v in view.arguments]:
        return None  # those of more than 128 bytes lie elsewhere
    (key_at, key_step, _), (value_at, value_step, _) = places
    key, value = map(inside.element, view.arguments)
    large = members[layout.large].offset if layout.large else -1
    header = GoMap(
        *(view.written, key, value, members[layout.way[0]].offset, large),
        *(layout.least, layout.most, key_at, key_step, value_at, value_step),
    )
    return Pointer(view.written, COUNT.type.size, header, "nil", reference=True)


def _pointed(view: View | None) -> View | None:
    """What a pointer to a pointer, or a pointer, leads to in the end."""
    for _ in range(3):
        view = view.target if view is not None and view.form != "record" else view
    return view


def _members(view: View) -> dict[str, MemberView]:
    return {member.name: member for member in view.members}


def _group(members: dict[str, MemberView], layout: Layout) -> View | None:
    found: View | None = None
    for name in layout.way:
        if name not in members:
            return None
        found = _pointed(members[name].type)
        if found is None:
            return None
        members = _members(found)
    return found


def _places(group: View) -> tuple[tuple[int, int, View], tuple[int, int, View]] | None:
    """Where the first key and the first value of a group are, how far the next ones are from these,
    and what they are."""
    members = _members(group)
    if "slots" in members and (slot := members["slots"].type.target) is not None:
        parts, start = _members(slot), members["slots"].offset
        if {"key", "elem"} <= parts.keys():
            key, value = parts["key"], parts["elem"]
            return (
                (start + key.offset, slot.size, key.type),
                (start + value.offset, slot.size, value.type),
            )
    for names in ("keys", "values"), ("keys", "elems"):
        if all(name in members for name in names):
            key, value = (members[name] for name in names)
            held, kept = key.type.target, value.type.target
            if held is not None and kept is not None:
                return (key.offset, held.size, held), (value.offset, kept.size, kept)
    return None


class KindFetcher(KeptFetcher):
    """What is fetched of a map: the number of elements, and the first slots."""

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        assert isinstance(type, GoMap)
        count = fetcher.take(
            COUNT.name, COUNT.type, integer(moved(address, type.length), COUNT.type)
        )
        if count.slot < 0:
            return Value(name, type.bare(), -1, TOO_MANY)
        # Of Rust's slots there may be fewer than are read.
        group = replace(dereferenced(address, type.group), optional=type.key_step < 0)
        shown = None
        if len(group.derefs) < DEREFS:
            flat = type.key.is_flat() and type.value.is_flat()
            shown = fetcher.most_that_fits(
                SCATTERED if type.key_step < 0 else FLAT_ELEMENTS if flat else DEEP_ELEMENTS,
                lambda own, number: _slots(own, type, address, group, number, flat=flat),
                MOST,
            )
        members = (count, shown) if shown is not None and shown.slot >= 0 else (count,)
        return Value(name, type.bare(), count.slot, members=members)


def _slots(
    fetcher: Fetcher, type: GoMap, address: Fetch, group: Fetch, number: int, *, flat: bool
) -> Value:
    """The states of the slots, and what is 0 where they are there, with the first slots."""
    parts = (
        []
        if type.fills
        else [fetcher.take("", STATES, replace(integer(group, STATES), optional=True))]
    )
    if type.large >= 0:
        parts.append(fetcher.take("", STATES, integer(moved(address, type.large), STATES)))
    least = min(part.slot for part in parts)
    head = Value("", Opaque(""), least, members=tuple(parts))
    slots = _each(type, number)
    pieces = _pieces(fetcher, group, slots) if flat else [None] * number
    made = [_slot(fetcher, group, slot, piece) for slot, piece in zip(slots, pieces, strict=True)]
    return Value("", Opaque(""), least, members=(head, *made))


def _each(type: GoMap, number: int) -> list[list[Member]]:
    """Where the keys and values of the first slots are, from the start of the group."""
    held = (
        (type.key, type.key_at, type.key_step),
        (type.value, type.value_at, type.value_step),
    )
    return [[Member("", kind, at + n * step) for kind, at, step in held] for n in range(number)]


def _pieces(
    fetcher: Fetcher, group: Fetch, slots: Sequence[Sequence[Member]]
) -> Sequence[Span | None]:
    """For each slot the bytes in which it and those beside it are, from the start of the group on;
    None where there is one that has no room in a piece."""
    for together in range(len(slots), 0, -1):
        extents = [_extent(slots[n : n + together]) for n in range(0, len(slots), together)]
        if all(size <= PIECE for _, size in extents):
            break
    else:
        return [None] * len(slots)
    pieces: list[Span] = []
    for first, size in extents:
        start = moved(group, first)
        pieces.append(Span(start, fetcher.slot(replace(start, read="bytes", limit=size)), -first))
    return [pieces[n // together] for n in range(len(slots))]


def _extent(slots: Sequence[Sequence[Member]]) -> tuple[int, int]:
    """Where slots begin, and how many bytes they take with what is between them."""
    parts = [part for slot in slots for part in slot]
    first = min(part.offset for part in parts)
    return first, max(part.offset + part.type.size for part in parts) - first


def _slot(fetcher: Fetcher, group: Fetch, slot: Sequence[Member], piece: Span | None) -> Value:
    parts = [
        fetcher.in_memory("", part.type, moved(group, part.offset), 0)
        if piece is None
        else fetcher.in_piece("", part.type, piece.inside(part.offset), 0)
        for part in slot
    ]
    return Value("", Opaque(""), min(part.slot for part in parts), members=tuple(parts))
