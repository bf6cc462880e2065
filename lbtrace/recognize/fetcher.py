"""Plans the fetches of a value, from its type and location.

A convention says where each parameter is (`Location`); a `Fetcher` turns that
into the fetches of a probe and a `Value` that says how they belong together.
It is the same for every processor and every language. What is fetched of each kind
of value its own file says, with a `NumberFetcher` or one that derives from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from lbtrace.abi.locations import (
    DEREFS,
    SPREAD,
    UNKNOWN,
    WORD,
    Detail,
    ErrorPlaces,
    Location,
    dereferenced,
    integer,
    moved,
)
from lbtrace.model import LONG, Fetch, Integer, Value
from lbtrace.recognize.slots import NO_ROOM, TOO_MANY, SlotBudget, Slots
from lbtrace.values import Type, find_row
from lbtrace.values.base import Member

ELEMENTS = 8
"""Elements of an array that are shown."""

MEMBERS = 16
"""Members of a record that are shown."""

PIECE = 120
"""Bytes of a record that are fetched."""

DEEP_ELEMENTS = 3
"""Elements that are shown of those that need fetches of their own: strings."""

PARTS = 1000
"""Parts of one value, those in other parts included, that are looked at."""

REASONS = 2
"""Why the parts of a value cannot be read, at most, before ``…``: a complex number's two."""

TOO_FAR = "through too many pointers"

UNSIGNED = Integer("unsigned long", WORD, False)


class Span(NamedTuple):
    """Bytes from memory: those from ``address`` on are in a ``slot``, and a value is ``offset``
    bytes into them."""

    address: Fetch
    slot: int
    offset: int = 0

    @property
    def start(self) -> Fetch:
        """The address of the value."""
        return moved(self.address, self.offset)

    def inside(self, offset: int) -> Span:
        """Return where a part lies that is ``offset`` bytes into the value."""
        return self._replace(offset=self.offset + offset)


class Fetcher(Slots):
    """Collects the fetches of one probe. ``cut`` counts the parameters that had no slot."""

    def __init__(
        self,
        limit: int,
        detail: Detail,
        budget: SlotBudget | None = None,
        kept: Sequence[Fetch] = (),
    ) -> None:
        super().__init__(limit, budget, kept)
        self.cut = 0
        self._kept = kept
        self._detail = detail
        self._parts = 0

    def slot(self, fetch: Fetch) -> int:
        """See `Slots.slot`. What lies after too many pointers has none."""
        return -1 if len(fetch.derefs) > DEREFS else super().slot(fetch)

    def text(self, name: str, type: Type, start: Fetch, length: Fetch | int | None) -> Value:
        """Text at an address: up to a NUL, or as many bytes as ``length`` says."""
        if length is None:
            return self.take(name, type, self.string(start))
        if isinstance(length, int):
            return self.take(name, type, replace(start, read="bytes", limit=length))
        return self.counted(name, type, start, length)

    @property
    def text_limit(self) -> int:
        """Bytes or wide characters of a text that are fetched, at most."""
        return self._detail.limit

    @property
    def error_places(self) -> ErrorPlaces:
        """What is fetched of an error of Go."""
        return self._detail.places

    def string(self, start: Fetch) -> Fetch:
        """Return what fetches the C string at an address."""
        return replace(start, read="string", limit=self._detail.limit)

    def counted(self, name: str, type: Type, start: Fetch, length: Fetch) -> Value:
        """Text at an address, of a length that is fetched before."""
        if max(len(start.derefs), len(length.derefs)) > DEREFS:
            return Value(name, type, -1, TOO_FAR)
        counted = self.slot(length)
        if counted < 0:
            return Value(name, type, -1, TOO_MANY)
        text = replace(start, read="bytes", limit=self._detail.limit, length_from=counted)
        return self.take(name, type, replace(text, optional=self.is_optional))

    def value(self, name: str, type: Type, place: Location) -> Value:
        """Return the value ``name`` of ``type`` that lies in ``place``."""
        self._parts = 0
        if place.memory is None and not place.words:
            return self.in_no_room(name, type, place.reason)
        if place.memory is not None:
            made = self.in_memory(name, type, place.memory, self._detail.depth)
        else:
            made = self.in_words(name, type, place, self._detail.depth)
        self.cut += made.slot < 0 and made.reason == TOO_MANY
        return made

    def optional_values(self, most: int, make: Callable[[Fetcher, int], Value]) -> list[Value]:
        """Return values that may be left out, made by their numbers: at most ``most``, within the
        budget. It is no loss that they cannot be read."""
        trial = type(self)(self._limit, self._detail, NO_ROOM)
        make(trial, 0)
        there = 0
        while there < most and self._has(make, there):
            there += 1
        count = there or self.reserve(trial.used, most)
        with self.as_optional():
            return [make(self, n) for n in range(count)]

    def _has(self, make: Callable[[Fetcher, int], Value], number: int) -> bool:
        """Return whether all that ``make`` fetches is kept anyway."""
        if not self._kept:
            return False
        trial = type(self)(len(self._kept), self._detail, NO_ROOM, self._kept)
        with trial.as_optional():
            make(trial, number)
        return not trial.is_short

    def most_that_fits(
        self, most: int, make: Callable[[Fetcher, int], Value], most_slots: int
    ) -> Value | None:
        """Return a value that may be left out, made of as many of its parts as the budget allows,
        at most ``most`` and in ``most_slots``; None where it allows none."""
        whole = first = 0, 0
        for count in range(most, 0, -1):
            trial = type(self)(self._limit, self._detail, NO_ROOM)
            make(trial, count)
            if trial.used[0] > most_slots:
                continue
            whole, first = max(whole, trial.used), trial.used
            is_kept = self._has(make, count)
            if is_kept or (self.allows(trial.used) and self.reserve(trial.used, 1)):
                with self.as_optional():
                    return make(self, count)
        self.reserve(whole, 1, first)
        return None

    def take(self, name: str, type: Type, fetch: Fetch, offset: int = 0) -> Value:
        """Return the value that one fetch gets."""
        slot = self.slot(fetch)
        return Value(name, type.bare(), slot, "" if slot >= 0 else TOO_MANY, offset)

    def in_no_room(self, name: str, type: Type, reason: str = "") -> Value:
        """Return a value for which nothing is fetched: for a ``reason``, or as it has no bytes."""
        if reason or type.size:
            return Value(name, type.bare(), -1, reason)
        return self._fetcher_of(type).in_no_room(self, name, type)

    def in_words(self, name: str, type: Type, place: Location, depth: int) -> Value:
        """Return a value in registers, or in slots of the stack; pointers are followed ``depth``
        deep."""
        return self._fetcher_of(type).in_words(self, name, type, place, depth)

    def in_memory(self, name: str, type: Type, address: Fetch, depth: int) -> Value:
        """Return a value in memory, at the address that is fetched so."""
        if len(address.derefs) > DEREFS:
            return Value(name, type.bare(), -1, TOO_FAR)
        return self._fetcher_of(type).in_memory(self, name, type, address, depth)

    def in_piece(self, name: str, type: Type, piece: Span, depth: int) -> Value:
        """Return a value that lies in bytes that were fetched."""
        # What takes no room is known though nothing is read there.
        if piece.offset >= PIECE and type.size and type.is_flat():
            return Value(name, type.bare(), piece.slot, offset=piece.offset)
        return self._fetcher_of(type).in_piece(self, name, type, piece, depth)

    def _fetcher_of(self, type: Type) -> NumberFetcher:
        """Return what fetches a value of this type, which is a part of one at most."""
        self._parts += 1
        return kind_fetcher(type) if self._parts <= PARTS else NoFetcher()


class NumberFetcher:
    """What is fetched of a value of one piece: a number, an address, a character."""

    def in_no_room(self, fetcher: Fetcher, name: str, type: Type) -> Value:
        """See `Fetcher.in_no_room`."""
        return Value(name, type.bare())

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        """See `Fetcher.in_words`."""
        word, into = place.word()
        if isinstance(word, str):
            return Value(name, type.bare(), -1, word)
        if not (type.size > WORD and type.computes):
            return fetcher.take(name, type, word, offset=into)
        halves = [
            fetcher.in_words("", half, place.inside(n * WORD), depth)
            for n, half in enumerate((UNSIGNED, LONG if type.signed else UNSIGNED))
        ]
        if min(half.slot for half in halves) < 0:
            return Value(name, type, -1, halves[0].reason or halves[1].reason)
        return Value(name, type, halves[0].slot, members=tuple(halves))

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        """See `Fetcher.in_memory`."""
        if type.size > WORD:
            return fetch_whole(fetcher, name, type, address, depth)
        return fetcher.take(name, type, integer(address, type))

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        """See `Fetcher.in_piece`."""
        return Value(name, type.bare(), piece.slot, offset=piece.offset)


class NoFetcher(NumberFetcher):
    """What is fetched of a part of a value that has too many: nothing."""

    def in_no_room(self, fetcher: Fetcher, name: str, type: Type) -> Value:
        return Value(name, type.bare(), -1, TOO_MANY)

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        return self.in_no_room(fetcher, name, type)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        return self.in_no_room(fetcher, name, type)

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        return self.in_no_room(fetcher, name, type)


Take: TypeAlias = Callable[[Member], Value]
"""Fetches a part of a value, wherever that lies."""


class PartsFetcher(NumberFetcher):
    """What is fetched of a value that is made of parts: its bytes, and the parts in these."""

    def of_parts(self, fetcher: Fetcher, name: str, type: Type, take: Take) -> Value:
        """Return the value, of which ``take`` fetches the parts: its first `MEMBERS`."""
        return compose(name, type, [take(member) for member in type.named_parts()[:MEMBERS]])

    def in_no_room(self, fetcher: Fetcher, name: str, type: Type) -> Value:
        def take(member: Member) -> Value:
            return fetcher.in_no_room(member.name, member.type)

        return self.of_parts(fetcher, name, type, take)

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        def take(member: Member) -> Value:
            at = place.inside(member.offset)
            if 8 * at.word()[1] + member.bit_offset + member.bit_size > 8 * WORD:
                return Value(member.name, member.type.bare(), -1, SPREAD)
            return as_member(fetcher.in_words(member.name, member.type, at, depth), member)

        return self.of_parts(fetcher, name, type, take)

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        def take(member: Member) -> Value:
            at = piece.inside(member.offset)
            return as_member(fetcher.in_piece(member.name, member.type, at, depth), member)

        return self.of_parts(fetcher, name, type, take)

    def in_memory(
        self, fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        return fetch_whole(fetcher, name, type, address, depth)


class KeptFetcher(NumberFetcher):
    """What is fetched of a record that keeps elsewhere what is shown of it, and that no convention
    passes in registers, unless its kind says so."""

    def in_words(
        self, fetcher: Fetcher, name: str, type: Type, place: Location, depth: int
    ) -> Value:
        return Value(name, type.bare(), -1, UNKNOWN)

    def in_piece(self, fetcher: Fetcher, name: str, type: Type, piece: Span, depth: int) -> Value:
        return fetcher.in_memory(name, type, piece.start, depth)


@cache
def _fetcher_of(kind: str) -> NumberFetcher:
    row = find_row(kind)
    if row is None or not row.is_fetched:
        return NumberFetcher()
    made: NumberFetcher = import_module(f"lbtrace.recognize.{row.name}").KindFetcher()
    return made


def kind_fetcher(type: Type) -> NumberFetcher:
    """Return what fetches values of the kind that ``type`` is of."""
    return _fetcher_of(type.__class__.__name__)


def fetch_whole(fetcher: Fetcher, name: str, type: Type, address: Fetch, depth: int) -> Value:
    """Return a value in memory of which all bytes are fetched, as far as there is room."""
    if not type.size > 0:
        return fetcher.in_no_room(name, type)
    if type.size <= WORD and not type.is_open_ended():
        whole = replace(address, read="integer", size=type.size)
        return fetcher.in_words(name, type, Location(words=(whole,)), depth)
    limit = min(type.size, PIECE)
    piece = fetcher.slot(replace(address, read="bytes", limit=limit, optional=fetcher.is_optional))
    if piece < 0:
        return Value(name, type.bare(), -1, TOO_MANY)
    return fetcher.in_piece(name, type, Span(address, piece), depth)


def pointer_in(word: Fetch) -> Fetch:
    """Return the address that a word holds; it is loaded from there if the word lies in memory."""
    return dereferenced(replace(word, read="value")) if word.read == "integer" else word


def as_member(value: Value, member: Member) -> Value:
    """Return ``value`` as a member, of which a bit field is some bits."""
    if not member.bit_size or value.slot < 0:
        return value
    return replace(value, bit_offset=member.bit_offset, bit_size=member.bit_size)


def compose(name: str, type: Type, members: Sequence[Value]) -> Value:
    """Return the value made of ``members``; it can be read where one of them can, or where all of
    them take no room."""
    slot = next((m.slot for m in members if m.slot >= 0), -1)
    is_known = slot >= 0 or not (type.size or all(m.reason for m in members))
    reasons = list(dict.fromkeys(m.reason for m in members if m.reason)) if not is_known else []
    reason = ", ".join([*reasons[:REASONS], *["…"] * (len(reasons) > REASONS)])
    shown = type.with_parts(len(members))
    return Value(name, shown, slot, reason, members=tuple(members) if is_known else ())
