"""The places in which values lie, and the fetches that lead on from them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.model import (
    Array,
    Character,
    Fetch,
    Formal,
    Opaque,
    Pointer,
    Record,
    Type,
    Variants,
    Vector,
)

DEREFS = 4
"""Loads on the way to a value: ``LBT_DEREFS`` in bpf_src/lbtrace.h."""

WORD = 8


class Detail(Struct, frozen=True):
    """How much is read of a value: ``depth`` pointers are followed to what
    they lead to, strings are cut at ``limit`` bytes."""

    depth: int = 0
    limit: int = 64


class Place(Struct, frozen=True):
    """Where a value lies: in ``words``, eight bytes each, in order, a word
    being what fetches it or why nothing can, ``offset`` bytes into them; or in
    ``memory``, at the address that this fetches; or nowhere, for a ``reason``.
    ``starts`` are the offsets of what the words hold, if not 0, 8 and so on."""

    words: tuple[Fetch | str, ...] = ()
    memory: Fetch | None = None
    reason: str = ""
    offset: int = 0
    starts: tuple[int, ...] = ()

    def word(self, offset: int = 0) -> tuple[Fetch | str, int]:
        """The word that holds the byte ``offset`` bytes into the value, and the
        position of that byte in it."""
        at = self.offset + offset
        starts = self.starts or range(0, WORD * len(self.words), WORD)
        index = bisect_right(starts, at) - 1
        if not 0 <= index < len(self.words) or at - starts[index] >= WORD:
            return "", 0
        return self.words[index], at - starts[index]

    def inside(self, offset: int) -> Place:
        """The place of what begins ``offset`` bytes into a value in words."""
        return replace(self, offset=self.offset + offset)


def apart(formal: Formal, take: Callable[[Formal], Place]) -> Place:
    """The place of a value whose scalars travel like parameters of their own."""
    words: list[Fetch | str] = []
    starts: list[int] = []
    for scalar in formal.scalars or ():
        alone = (replace(scalar, offset=0),)
        place = take(replace(formal, size=scalar.size, scalars=alone, register=-1, split=False))
        for at in range(0, scalar.size, WORD):
            starts.append(scalar.offset + at)
            if place.memory is not None:
                words.append(replace(moved(place.memory, at), read="integer", size=WORD))
            else:
                words.append(place.words[at // WORD] if place.words else place.reason)
    return Place(words=tuple(words), starts=tuple(starts))


def told(formal: Formal, place: Place) -> Place:
    """``place``, as far as something is certain to be there."""
    return Place(reason="optimised out") if formal.unread else place


def bare(type: Type) -> Type:
    """``type`` without what it is made of: a value has its own members."""
    if isinstance(type, Pointer):
        return replace(type, target=None)
    if isinstance(type, Record):
        return replace(type, members=())
    if isinstance(type, Array | Vector):
        return replace(type, element=Opaque(""))
    if isinstance(type, Variants):
        cases = (replace(case, record=Opaque("")) for case in type.cases)
        return replace(type, cases=tuple(cases))
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
