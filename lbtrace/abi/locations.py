"""Locations of values, and the fetches that lead on from them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from lbtrace.model import Fetch, Formal, Piece, Type, wire_limits

DEREFS = wire_limits.DEREFS
"""Loads on the way to a value."""

WORD = 8

OPTIMISED_OUT = "optimised out"
"""Why a value cannot be read that the compiler does not pass."""

CHANGED = "passed otherwise than declared"
"""Why a parameter or result cannot be found that is passed, if at all, not as its function
declares."""

LEFT_OUT = "debug information leaves out a parameter"
"""Why a value cannot be read that may be passed in the place of another, or after it."""

SPREAD = "spread over two registers"
"""Why a bit field cannot be read that begins in one word and ends in the next."""

UNKNOWN = "how it is passed is unknown"
"""Why a value cannot be read whose convention, or type, is not known."""


Lead: TypeAlias = Literal["text", "error", "numbered error", "type"]
"""A part of an error of Go: text, another error, one that may be a number, and the address of a
type."""


class ErrorPlaces(Struct, frozen=True):
    """What is fetched of an error of Go: ``size`` bytes, and what the parts lead to that may be at
    the offsets of ``leads``, the most important first."""

    size: int = 0
    leads: tuple[tuple[int, Lead], ...] = ()


class Detail(Struct, frozen=True):
    """How much is read of a value: ``depth`` pointers are followed to what
    they lead to, strings are cut at ``limit`` bytes, of Go's errors parts at ``places``."""

    depth: int = 0
    limit: int = 64
    places: ErrorPlaces = ErrorPlaces()


class IndexedFetch(Fetch, frozen=True, kw_only=True):
    """A fetch that adds ``factor`` times what ``index`` fetches. That has no slot yet: a plan holds
    what `from_slot` makes of it."""

    index: Fetch

    def from_slot(self, slot: int) -> Fetch:
        """Return the same where the index is the value of the earlier ``slot``."""
        fields = asdict(self)
        del fields["index"]
        return Fetch(**fields | {"plus": slot})


class Location(Struct, frozen=True):
    """Where a value lies: in ``words``, eight bytes each, in order, a word
    being what fetches it or why nothing can, ``offset`` bytes into them; or in
    ``memory``, at the address that this fetches; or nowhere, for a ``reason``.
    ``starts`` are the offsets of what the words hold, if not 0, 8 and so on."""

    words: tuple[Fetch | str, ...] = ()
    memory: Fetch | None = None
    reason: str = ""
    offset: int = 0
    starts: tuple[int, ...] = ()

    @property
    def registers(self) -> set[str]:
        """Those from which the value, or its address, is fetched."""
        words = (word for word in self.words if not isinstance(word, str))
        fetches = (*words, *filter(None, [self.memory]))
        return {fetch.register for fetch in fetches if fetch.base == "register"}

    @property
    def all_registers(self) -> set[str]:
        """The registers, also those of which BPF cannot read what they hold."""
        words = (word for word in self.words if isinstance(word, str))
        return self.registers.union(w.split()[-1] for w in words if w.startswith("float in "))

    def word(self, offset: int = 0) -> tuple[Fetch | str, int]:
        """Return the word that holds the byte ``offset`` bytes into the value, and the
        position of that byte in it."""
        at = self.offset + offset
        starts = self.starts or range(0, WORD * len(self.words), WORD)
        index = bisect_right(starts, at) - 1
        if not 0 <= index < len(self.words) or at - starts[index] >= WORD:
            return "", 0
        return self.words[index], at - starts[index]

    def spans(self) -> Iterator[tuple[Fetch | str, int, int]]:
        """Yield each word, with the offsets into the value from and to which it holds it."""
        starts = self.starts or range(0, WORD * len(self.words), WORD)
        for n, (word, start) in enumerate(zip(self.words, starts, strict=True)):
            end = starts[n + 1] if n + 1 < len(starts) else start + WORD
            yield word, start, min(end, start + WORD)

    def why_unread(self, *offsets: int) -> str:
        """Return why what lies at one of these offsets into the value cannot be read."""
        words = (self.word(offset)[0] for offset in offsets)
        return next((word for word in words if isinstance(word, str) and word), UNKNOWN)

    def inside(self, offset: int) -> Location:
        """Return the location of what begins ``offset`` bytes into a value in words."""
        return replace(self, offset=self.offset + offset)


def apart(formal: Formal, take: Callable[[Formal], Location]) -> Location:
    """Return the location of a value whose scalars travel like parameters of their own."""
    words: list[Fetch | str] = []
    starts: list[int] = []
    for scalar in formal.scalars or ():
        alone = (replace(scalar, offset=0),)
        undeclared = formal.without_location(passed_separately=False)
        part = replace(undeclared, size=scalar.size, scalars=alone)
        place = take(part)
        for at in range(0, scalar.size, WORD):
            starts.append(scalar.offset + at)
            if place.memory is not None:
                words.append(replace(moved(place.memory, at), read="integer", size=WORD))
            else:
                words.append(place.words[at // WORD] if place.words else place.reason)
    return Location(words=tuple(words), starts=tuple(starts))


def as_described(
    formal: Formal, place: Location, name: Callable[[int], str], unreliable: str = ""
) -> Location:
    """Return the location ``place``, whose words are in registers, with what debug information says
    of each. The ``name`` of a register that cannot be read says why. With ``unreliable``, a reason,
    nothing that debug information does not name is certain."""
    words: list[Fetch | str] = []
    for word, start, end in place.spans():
        if is_absent(formal, word, start, end):
            words.append(OPTIMISED_OUT)
        # Of what the caller pushed LLVM says nothing before it is loaded.
        elif formal.pieces and (_is_in_register(word) or unreliable):
            words.append(_described_word(formal, start, end, name) or unreliable or OPTIMISED_OUT)
        else:
            words.append(unreliable or word)
    return replace(place, words=tuple(words))


def is_absent(formal: Formal, word: Fetch | str, start: int, end: int) -> bool:
    """Return whether debug information has no location for what ``word`` holds by the convention,
    the bytes of ``formal`` from ``start`` to ``end``, but for other parts of it."""
    if not formal.pieces or not _is_in_register(word):
        return False
    return find_piece(formal, start, end) is None


def find_piece(formal: Formal, start: int, end: int) -> Piece | None:
    """Return the first piece of ``formal`` among the bytes from ``start`` to ``end``."""
    return next((p for p in formal.pieces if p.start < end and start < p.end), None)


def _is_in_register(word: Fetch | str) -> bool:
    return isinstance(word, str) or word.base == "register"


def _described_word(
    formal: Formal, start: int, end: int, name: Callable[[int], str]
) -> Fetch | str:
    pieces = [p for p in formal.pieces if p.start < end and start < p.end]
    if not pieces:
        return ""
    if any(p.register != pieces[0].register or p.start - start != p.skipped for p in pieces):
        return UNKNOWN
    held = name(pieces[0].register)
    return held if " " in held else Fetch(register=held)


def agrees(place: Location, held: Collection[str]) -> bool:
    """Return whether a value at the location ``place`` can have parts in the registers ``held``."""
    names = (word if isinstance(word, str) else word.register for word in place.words)
    return set(held).issubset(names)


def if_passed(formal: Formal, place: Location) -> Location:
    """Return the location ``place``, or `OPTIMISED_OUT` where the parameter may not have been
    set."""
    return Location(reason=OPTIMISED_OUT) if formal.may_be_unset else place


def lose_unless_named(formal: Formal, why: str) -> Formal:
    """Return a parameter of a function to which other things may be passed than it declares: it is
    lost, and this says ``why``, unless debug information names the one register that holds all of
    it: from which another is computed may have been passed for that."""
    whole = formal.reference or (
        formal.size <= WORD and not (formal.passed_separately and len(formal.scalars or ()) > 1)
    )
    named = formal.register >= 0 and formal.derived_from < 0
    return formal if whole and named else replace(formal, missing_reason=why)


def moved(address: Fetch, offset: int) -> Fetch:
    """Return the address ``offset`` bytes after ``address``."""
    if not address.derefs:
        return replace(address, offset=address.offset + offset)
    return replace(address, derefs=(*address.derefs[:-1], address.derefs[-1] + offset))


def rounded_up(size: int, to: int) -> int:
    """Return the least multiple of ``to`` that is not less than ``size``."""
    return -(-size // to) * to


def dereferenced(address: Fetch, offset: int = 0) -> Fetch:
    """Return the pointer ``offset`` bytes after ``address``."""
    at = moved(address, offset)
    return replace(at, derefs=(*at.derefs, 0))


def integer(address: Fetch, type: Type) -> Fetch:
    """Return the scalar of ``type`` that lies at ``address``."""
    return replace(
        address,
        read="integer",
        size=type.size or WORD,
        signed=type.signed,
    )
