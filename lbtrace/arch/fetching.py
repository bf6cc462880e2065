"""What to fetch of a value, from its type and the place it lies in.

A convention says where each parameter is (`Place`); a `Fetcher` turns that
into the fetches of a probe and a `Value` that says how they belong together.
It is the same for every processor and every language.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.model import (
    Array,
    Character,
    Fetch,
    Member,
    Opaque,
    Pointer,
    Record,
    String,
    Type,
    Value,
)

DEREFS = 4
"""Loads on the way to a value: ``LBT_DEREFS`` in bpf_src/lbtrace.h."""

WORD = 8
ELEMENTS = 8
"""Elements of an array that are shown."""

MEMBERS = 16
"""Members of a record that are shown."""

TEXTS = 8
"""Strings and pieces of memory that one event carries: LBT_SMALL_8 there."""

PIECE = 120
"""Bytes of a record that are fetched."""

NO_SLOT = "no slot left"


class Detail(Struct, frozen=True):
    """How much is read of a value: ``depth`` pointers are followed to what
    they lead to, strings are cut at ``limit`` bytes."""

    depth: int = 0
    limit: int = 64


class Place(Struct, frozen=True):
    """Where a value lies: in ``words``, eight bytes each, in order, a word
    being what fetches it or why nothing can, ``offset`` bytes into them; or in
    ``memory``, at the address that this fetches; or nowhere, for a ``reason``."""

    words: tuple[Fetch | str, ...] = ()
    memory: Fetch | None = None
    reason: str = ""
    offset: int = 0


class Fetcher:
    """Collects the fetches of one probe: at most ``limit``.

    ``cut`` counts the parameters that had no slot left.
    """

    def __init__(self, limit: int, detail: Detail) -> None:
        self.cut = 0
        self._texts = 0
        self._limit = limit
        self._detail = detail
        self._fetches: list[Fetch] = []

    @property
    def fetches(self) -> tuple[Fetch, ...]:
        """All that is to be fetched, by slot."""
        return tuple(self._fetches)

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
            made = self._in_words(name, type, place.words, place.offset, self._detail.depth)
        self.cut += made.slot < 0 and made.reason == NO_SLOT
        return made

    def slot(self, fetch: Fetch) -> int:
        """The slot of a fetch; -1 where none is left."""
        if fetch in self._fetches:
            return self._fetches.index(fetch)
        if len(self._fetches) >= self._limit:
            return -1
        if fetch.read in ("string", "bytes"):
            if self._texts == TEXTS:
                return -1
            self._texts += 1
        self._fetches.append(fetch)
        return len(self._fetches) - 1

    def _take(self, name: str, type: Type, fetch: Fetch, offset: int = 0) -> Value:
        slot = self.slot(fetch)
        return Value(name, bare(type), slot, "" if slot >= 0 else NO_SLOT, offset)

    # ------------------------------------------------------------ in registers

    def _in_words(  # noqa: PLR0911
        self, name: str, type: Type, words: tuple[Fetch | str, ...], offset: int, depth: int
    ) -> Value:
        if isinstance(type, Record):
            members = [
                self._member(self._in_words(m.name, m.type, words, offset + m.offset, depth), m)
                for m in type.members[:MEMBERS]
            ]
            return _composed(name, type, members)
        if isinstance(type, Array) and is_char(type.element):
            word = words[offset // WORD] if offset // WORD < len(words) else ""
            if isinstance(word, str) or offset % WORD + type.size > WORD:
                return Value(name, bare(type), -1, word if isinstance(word, str) else "")
            return self._take(name, bare(type), word, offset % WORD)
        if isinstance(type, Array):
            step = type.size // type.count if type.count else 0
            elements = [
                self._in_words("", type.element, words, offset + n * step, depth)
                for n in range(min(type.count, ELEMENTS))
            ]
            return _composed(name, type, elements)
        if isinstance(type, String):
            start, length = (
                words[(offset + at) // WORD] if (offset + at) // WORD < len(words) else ""
                for at in (type.pointer, type.length)
            )
            if isinstance(start, str) or isinstance(length, str):
                return Value(name, type, -1, "")
            return self._counted(name, type, start, length)
        word = words[offset // WORD] if offset // WORD < len(words) else ""
        if isinstance(word, str):
            return Value(name, bare(type), -1, word)
        if isinstance(type, Opaque):
            return Value(name, type)
        if isinstance(type, Pointer) and not offset % WORD:
            inside = word.read == "integer"  # a word in memory: the pointer is loaded from there
            address = dereferenced(replace(word, read="value")) if inside else word
            return self._pointer(name, type, address, depth)
        return self._take(name, type, word, offset=offset % WORD)

    # --------------------------------------------------------------- in memory

    def _in_memory(  # noqa: PLR0911
        self, name: str, type: Type, address: Fetch, depth: int
    ) -> Value:
        if len(address.derefs) > DEREFS:
            return Value(name, bare(type), -1, "behind too many pointers")
        if isinstance(type, Record | Array):
            if not type.size > 0:
                return Value(name, bare(type))
            if type.size <= WORD:
                whole = replace(address, read="integer", size=type.size)
                return self._in_words(name, type, (whole,), 0, depth)
            piece = self.slot(replace(address, read="bytes", limit=min(type.size, PIECE)))
            if piece < 0:
                return Value(name, bare(type), -1, NO_SLOT)
            return self._in_piece(name, type, address, piece, 0, depth)
        if isinstance(type, String):
            return self._counted(
                name,
                type,
                dereferenced(address, type.pointer),
                replace(moved(address, type.length), read="integer", size=WORD),
            )
        if isinstance(type, Opaque):
            return Value(name, type)
        if isinstance(type, Pointer):
            return self._pointer(name, type, dereferenced(address), depth)
        return self._take(name, type, integer(address, type))

    def _in_piece(
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
        if isinstance(type, Array) and is_char(type.element):
            return Value(name, bare(type), piece, offset=offset)
        if isinstance(type, Array):
            step = type.size // type.count if type.count else 0
            elements = [
                self._in_piece("", type.element, address, piece, offset + n * step, depth)
                for n in range(min(type.count, ELEMENTS))
            ]
            return _composed(name, type, elements)
        if isinstance(type, String) or _leads_on(type, depth):
            made = self._in_memory(name, type, moved(address, offset), depth)
            if made.slot >= 0 or isinstance(type, String):
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
            return self._take(name, String(type.name), self.string(address))
        if isinstance(type.target, String) and type.name.endswith("&"):
            text = replace(type.target, name=type.name)
            return self._in_memory(name, text, address, depth)
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
        return self._take(name, type, text)

    def _member(self, value: Value, member: Member) -> Value:
        if not member.bit_size or value.slot < 0:
            return value
        return replace(value, bit_offset=member.bit_offset, bit_size=member.bit_size)


def bare(type: Type) -> Type:
    """``type`` without what it is made of: a value has its own members."""
    if isinstance(type, Pointer):
        return replace(type, target=None)
    if isinstance(type, Record):
        return replace(type, members=())
    if isinstance(type, Array):
        return replace(type, element=Opaque(""))
    return type


def is_text(type: Type) -> bool:
    """Whether this is a pointer to characters of one byte: a C string."""
    return isinstance(type, Pointer) and is_char(type.target)


def is_char(type: Type | None) -> bool:
    """Whether this is a character of one byte."""
    return isinstance(type, Character) and type.size == 1


def moved(address: Fetch, offset: int) -> Fetch:
    """The address ``offset`` bytes behind ``address``."""
    if not address.derefs:
        return replace(address, offset=address.offset + offset)
    return replace(address, derefs=(*address.derefs[:-1], address.derefs[-1] + offset))


def dereferenced(address: Fetch, offset: int = 0) -> Fetch:
    """The pointer that lies ``offset`` bytes behind ``address``."""
    at = moved(address, offset)
    return replace(at, derefs=(*at.derefs, 0))


def integer(address: Fetch, type: Type) -> Fetch:
    """The scalar of ``type`` that lies at ``address``."""
    return replace(
        address,
        read="integer",
        size=getattr(type, "size", WORD),
        signed=getattr(type, "signed", False),
    )


def _leads_on(type: Type, depth: int) -> bool:
    """Whether a pointer is to be followed: text always, the rest ``depth`` deep."""
    if not isinstance(type, Pointer) or type.target is None:
        return False
    return is_text(type) or (depth > 0 and not isinstance(type.target, Opaque))


def _composed(name: str, type: Type, members: list[Value]) -> Value:
    slot = next((m.slot for m in members if m.slot >= 0), -1)
    reason = "" if slot >= 0 else ", ".join(dict.fromkeys(m.reason for m in members if m.reason))
    return Value(name, bare(type), slot, reason, members=tuple(members) if slot >= 0 else ())
