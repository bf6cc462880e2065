"""What to fetch of a value, from its type and the place it lies in.

A convention says where each parameter is (`Place`); a `Fetcher` turns that
into the fetches of a probe and a `Value` that says how they belong together.
It is the same for every processor and every language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from lbtrace.arch.places import (
    DEREFS,
    WORD,
    Detail,
    Place,
    bare,
    dereferenced,
    integer,
    is_char,
    is_text,
    moved,
)
from lbtrace.arch.slots import NO_SLOT, Slots, Spare
from lbtrace.model import (
    LONG,
    Array,
    Case,
    Fetch,
    Float,
    Integer,
    Member,
    Opaque,
    Pointer,
    Record,
    String,
    Type,
    Value,
    Variants,
    Vector,
)

ELEMENTS = 8
"""Elements of an array that are shown."""

MEMBERS = 16
"""Members of a record that are shown."""

PIECE = 120
"""Bytes of a record that are fetched."""

DEEP_ELEMENTS = 3
"""Elements that are shown of those that need fetches of their own: strings."""

UNSIGNED = Integer("unsigned long", WORD, False)


class Fetcher(Slots):
    """Collects the fetches of one probe. ``cut`` counts the parameters that had no slot left."""

    def __init__(self, limit: int, detail: Detail, spare: Spare | None = None) -> None:
        super().__init__(limit, spare)
        self.cut = 0
        self._detail = detail

    def text(self, name: str, type: Type, start: Fetch, length: Fetch | int | None) -> Value:
        """Text at an address: up to a NUL, or as many bytes as ``length`` says."""
        if length is None:
            return self._take(name, type, self.string(start))
        if isinstance(length, int):
            return self._take(name, type, replace(start, read="bytes", limit=length))
        return self._counted(name, type, start, length)

    def string(self, start: Fetch) -> Fetch:
        """What fetches the C string at an address."""
        return replace(start, read="string", limit=self._detail.limit)

    def value(self, name: str, type: Type, place: Place) -> Value:
        """The value ``name`` of ``type`` that lies in ``place``."""
        if place.memory is None and not place.words:
            return Value(name, bare(type), -1, place.reason)
        if place.memory is not None:
            made = self._in_memory(name, type, place.memory, self._detail.depth)
        else:
            made = self._in_words(name, type, place, self._detail.depth)
        self.cut += made.slot < 0 and made.reason == NO_SLOT
        return made

    def few(self, most: int, make: Callable[[Fetcher, int], Value]) -> list[Value]:
        """Values that may be left out, made by their numbers: at most ``most``, and as many as
        can be spared. It is no loss that they cannot be read."""
        trial = type(self)(self._limit, self._detail, Spare(0, 0))
        make(trial, 0)
        count = self.spared(trial.used, most)
        with self.perhaps():
            return [make(self, n) for n in range(count)]

    def _take(self, name: str, type: Type, fetch: Fetch, offset: int = 0) -> Value:
        slot = self.slot(fetch)
        return Value(name, bare(type), slot, "" if slot >= 0 else NO_SLOT, offset)

    # ------------------------------------------------------------ in registers

    def _in_words(  # noqa: PLR0911, PLR0912
        self, name: str, type: Type, place: Place, depth: int
    ) -> Value:
        if isinstance(type, Record):
            members = [
                self._member(self._in_words(m.name, m.type, place.inside(m.offset), depth), m)
                for m in type.members[:MEMBERS]
            ]
            return _composed(name, type, members)
        if isinstance(type, Variants):
            return self._variants(
                name, type, lambda m: self._in_words(m.name, m.type, place.inside(m.offset), depth)
            )
        word, into = place.word()
        if isinstance(type, Array) and is_char(type.element):
            if isinstance(word, str) or into + type.size > WORD:
                return Value(name, bare(type), -1, word if isinstance(word, str) else "")
            return self._take(name, bare(type), word, into)
        if isinstance(type, Array):
            step = type.size // type.count if type.count else 0
            elements = [
                self._in_words("", type.element, place.inside(n * step), depth)
                for n in range(min(type.count, ELEMENTS))
            ]
            return _composed(name, type, elements)
        if isinstance(type, String | Vector):
            start, length = (place.word(at)[0] for at in (type.pointer, type.length))
            if isinstance(start, str) or isinstance(length, str) or type.length < 0:
                return Value(name, bare(type), -1, "")
            start = _pointer_in(start)
            if isinstance(type, Vector):
                return self._elements(name, type, start, self.slot(length), type.step)
            return self._counted(name, type, start, length)
        if isinstance(word, str):
            return Value(name, bare(type), -1, word)
        if isinstance(type, Opaque):
            return Value(name, type)
        if isinstance(type, Pointer) and not into:
            return self._pointer(name, type, _pointer_in(word), depth)
        if isinstance(type, Integer) and type.size > WORD:
            halves = [
                self._in_words("", half, place.inside(n * WORD), depth)
                for n, half in enumerate((UNSIGNED, LONG if type.signed else UNSIGNED))
            ]
            if min(half.slot for half in halves) < 0:
                return Value(name, type, -1, halves[0].reason or halves[1].reason)
            return Value(name, type, halves[0].slot, members=tuple(halves))
        return self._take(name, type, word, offset=into)

    # --------------------------------------------------------------- in memory

    def _in_memory(  # noqa: PLR0911
        self, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        if len(address.derefs) > DEREFS:
            return Value(name, bare(type), -1, "behind too many pointers")
        if isinstance(type, Record | Array | Variants) or (
            getattr(type, "size", 0) > WORD and isinstance(type, Integer | Float)
        ):
            if not type.size > 0:
                return Value(name, bare(type))
            if type.size <= WORD:
                whole = replace(address, read="integer", size=type.size)
                return self._in_words(name, type, Place(words=(whole,)), depth)
            limit = min(type.size, PIECE)
            piece = self.slot(replace(address, read="bytes", limit=limit, optional=self._optional))
            if piece < 0:
                return Value(name, bare(type), -1, NO_SLOT)
            return self._in_piece(name, type, address, piece, 0, depth)
        if isinstance(type, String):
            return self._string(name, type, address)
        if isinstance(type, Vector):
            return self._vector(name, type, address)
        if isinstance(type, Opaque):
            return Value(name, type)
        if isinstance(type, Pointer):
            return self._pointer(name, type, dereferenced(address), depth)
        return self._take(name, type, integer(address, type))

    def _in_piece(  # noqa: PLR0911
        self, name: str, type: Type, address: Fetch, piece: int, offset: int, depth: int
    ) -> Value:
        """A value inside a record of which slot ``piece`` holds the bytes."""
        if isinstance(type, Record):
            members = [
                self._member(
                    self._in_piece(m.name, m.type, address, piece, offset + m.offset, depth), m
                )
                for m in type.members[:MEMBERS]
            ]
            return _composed(name, type, members)
        if isinstance(type, Variants):
            return self._variants(
                name,
                type,
                lambda m: self._in_piece(m.name, m.type, address, piece, offset + m.offset, depth),
            )
        if isinstance(type, Array) and is_char(type.element):
            return Value(name, bare(type), piece, offset=offset)
        if isinstance(type, Array):
            step = type.size // type.count if type.count else 0
            elements = [
                self._in_piece("", type.element, address, piece, offset + n * step, depth)
                for n in range(min(type.count, ELEMENTS))
            ]
            return _composed(name, type, elements)
        if isinstance(type, String | Vector) or _leads_on(type, depth):
            made = self._in_memory(name, type, moved(address, offset), depth)
            if made.slot >= 0 or isinstance(type, String | Vector):
                return made
        if isinstance(type, Opaque):
            return Value(name, type)
        return Value(name, bare(type), piece, offset=offset)

    # ------------------------------------------------------------ what is common

    def _pointer(self, name: str, type: Type, address: Fetch, depth: int) -> Value:
        """A pointer that ``address`` fetches: text, what it leads to, or just an address."""
        if len(address.derefs) > DEREFS:
            return Value(name, bare(type), -1, "behind too many pointers")
        assert isinstance(type, Pointer)
        if is_text(type):
            string = replace(self.string(address), optional=self._optional)
            return self._take(name, String(type.name), string)
        refers = type.name.endswith("&") or type.name.startswith("&")
        if isinstance(type.target, String | Vector) and refers:
            return self._in_memory(name, replace(type.target, name=type.name), address, depth)
        made = self._take(name, type, address)
        if made.slot < 0 or not _leads_on(type, depth):
            return made
        assert type.target is not None
        target = self._in_memory("", type.target, address, depth - 1)
        return replace(made, members=(target,)) if target.slot >= 0 or target.members else made

    def _counted(self, name: str, type: Type, start: Fetch, length: Fetch) -> Value:
        if max(len(start.derefs), len(length.derefs)) > DEREFS:
            return Value(name, type, -1, "behind too many pointers")
        counted = self.slot(length)
        if counted < 0:
            return Value(name, type, -1, NO_SLOT)
        text = replace(start, read="bytes", limit=self._detail.limit, length_from=counted)
        return self._take(name, type, replace(text, optional=self._optional))

    def _string(self, name: str, type: String, address: Fetch) -> Value:
        """A string whose record lies at ``address``."""
        start = dereferenced(address, type.pointer)
        length = replace(moved(address, type.length), read="integer", size=WORD)
        if not type.short:
            return self._counted(name, type, start, length)
        whole = self.slot(replace(address, read="bytes", limit=type.size))
        with self.perhaps():
            long = self._counted("", type, start, length)
        if whole < 0 or long.slot < 0:
            return Value(name, type, -1, NO_SLOT)
        return Value(name, type, whole, members=(Value("", type, whole), long))

    def _vector(self, name: str, type: Vector, address: Fetch) -> Value:
        """Elements whose record lies at ``address``."""
        start = dereferenced(address, type.pointer)
        if len(start.derefs) > DEREFS:
            return Value(name, bare(type), -1, "behind too many pointers")
        if type.end < 0:
            length = self.slot(replace(moved(address, type.length), read="integer", size=WORD))
            return self._elements(name, type, start, length, type.step)
        begin, end = self.slot(start), self.slot(dereferenced(address, type.end))
        if min(begin, end) < 0:
            return Value(name, bare(type), -1, NO_SLOT)
        length = self.slot(Fetch(base="slot", earlier=end, plus=begin, factor=-1))
        return self._elements(name, type, start, length, 1)

    def _elements(self, name: str, type: Vector, start: Fetch, length: int, scale: int) -> Value:
        """The first elements of those at ``start``: as many times ``scale`` bytes as
        the slot ``length`` says."""
        if length < 0:
            return Value(name, bare(type), -1, NO_SLOT)
        deep = not _is_flat(type.element)
        most = min(DEEP_ELEMENTS if deep else ELEMENTS, PIECE // type.step)
        piece = self.slot(
            replace(
                start,
                read="bytes",
                limit=most * type.step,
                length_from=length,
                scale=scale,
                optional=self._optional,
            )
        )
        if piece < 0:
            return Value(name, bare(type), -1, NO_SLOT)

        def element(fetcher: Fetcher, n: int) -> Value:
            return fetcher._in_piece("", type.element, start, piece, n * type.step, 0)

        elements = self.few(most, element) if deep else [element(self, n) for n in range(most)]
        while elements and elements[-1].slot < 0:
            elements.pop()
        return Value(name, bare(type), piece, members=tuple(elements))

    def _variants(self, name: str, type: Variants, part: Callable[[Member], Value]) -> Value:
        """An enumeration of Rust, ``part`` being what gets its parts."""
        members = [part(type.discriminant)] if type.discriminant else []
        if members and members[0].slot < 0:
            return Value(name, bare(type), -1, members[0].reason)
        with self.perhaps():
            members += (_told(part(Member(case.name, case.record, 0)), case) for case in type.cases)
        slot = next((m.slot for m in members if m.slot >= 0), -1)
        return Value(name, bare(type), slot, members=tuple(members))

    def _member(self, value: Value, member: Member) -> Value:
        if not member.bit_size or value.slot < 0:
            return value
        return replace(value, bit_offset=member.bit_offset, bit_size=member.bit_size)


Made = TypeVar("Made")


def collected(limit: int, detail: Detail, make: Callable[[Fetcher], Made]) -> tuple[Made, Fetcher]:
    """What ``make`` makes, and what fetches it: the values that may be left out get the slots
    that all others leave."""
    fetcher = Fetcher(limit, detail, Spare(0, 0))
    made = make(fetcher)
    if fetcher.refused and min(fetcher.left) > 0:
        fetcher = Fetcher(limit, detail, fetcher.left)
        made = make(fetcher)
    return made, fetcher


def _pointer_in(word: Fetch) -> Fetch:
    """The address that a word holds; it is loaded from there if the word lies in memory."""
    return dereferenced(replace(word, read="value")) if word.read == "integer" else word


def _is_flat(type: Type) -> bool:
    """Whether a value of this type is what lies in its bytes."""
    if isinstance(type, Record):
        return all(_is_flat(m.type) for m in type.members)
    if isinstance(type, Variants):
        return all(_is_flat(case.record) for case in type.cases)
    return not isinstance(type, String | Vector) and not is_text(type)


def _told(value: Value, case: Case) -> Value:
    """A case with its members, even where none can be read."""
    if value.members or not isinstance(case.record, Record):
        return value
    members = (Value(m.name, bare(m.type), -1, value.reason) for m in case.record.members)
    return replace(value, members=tuple(members))


def _leads_on(type: Type, depth: int) -> bool:
    """Whether a pointer is to be followed: text always, the rest ``depth`` deep."""
    if not isinstance(type, Pointer) or type.target is None:
        return False
    return is_text(type) or (depth > 0 and not isinstance(type.target, Opaque))


def _composed(name: str, type: Type, members: list[Value]) -> Value:
    slot = next((m.slot for m in members if m.slot >= 0), -1)
    reason = "" if slot >= 0 else ", ".join(dict.fromkeys(m.reason for m in members if m.reason))
    return Value(name, bare(type), slot, reason, members=tuple(members) if slot >= 0 else ())
