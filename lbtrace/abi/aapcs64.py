"""The procedure call standard of arm64.

Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64),
sections 5.9 (composite types), 6.8.2 (parameter passing), 6.9 (results). The
rules cited below (B.4, C.12 …) are those of 6.8.2.
"""

from __future__ import annotations

from typing import cast

from lbtrace.abi import Locations
from lbtrace.abi.locations import (
    UNKNOWN,
    Location,
    agrees,
    apart,
    as_described,
    dereferenced,
    if_passed,
)
from lbtrace.abi.shifts import Shifts
from lbtrace.model import Fetch, Formal, Prototype, Scalar

ARGUMENTS = tuple(f"x{n}" for n in range(8))
"""Integer arguments, in order; results come back in the first of them."""

VECTORS = 8
"""Arguments that vector registers take: v0 to v7."""

HOMOGENEOUS = 4
"""Floats that a composite of nothing else may have, to travel in vector registers (5.9.5)."""

WORD_REGISTERS = 31
"""x0 to x30 have these DWARF numbers (DWARF for the Arm 64-bit Architecture, 4.1)."""

DWARF_VECTOR = 64
"""The DWARF number of v0 (the same)."""

PASSING = frozenset({*range(WORD_REGISTERS), *range(DWARF_VECTOR, DWARF_VECTOR + 32)})
"""See `lbtrace.abi.CallingConvention`; none is left out."""


def places(prototype: Prototype) -> Locations:
    """Return where the values of ``prototype`` lie.

    A parameter whose location is unknown makes the locations of those after it unknown as well.
    """
    taken = ArgumentAssigner()
    parameters = tuple(if_passed(formal, taken.take(formal)) for formal in prototype.parameters)
    return Locations(parameters, _result(prototype.result))


def _result(formal: Formal | None) -> Location:
    """It comes back as if it were the first argument, or in memory: at the
    address that x8 held at entry, and may not hold at return (6.9)."""
    if formal is None or not formal.type.has_values:
        return Location()
    place = ArgumentAssigner().take(formal)
    if formal.reference or place.memory is not None:
        return Location(memory=Fetch(base="kept", register="x8"))
    return place


class ArgumentAssigner:
    """The registers and stack slots that earlier parameters left."""

    def __init__(self) -> None:
        self._integers = 0  # NGRN
        self._vectors = 0  # NSRN
        self._stack = 0  # NSAA, from the stack pointer at entry
        self._lost = ""
        self._shifts = Shifts(_declared_register)

    def take(self, formal: Formal) -> Location:
        """Return where ``formal`` lies."""
        if formal.missing_reason:
            return Location(reason=formal.missing_reason)
        unknown = self._lost
        separate = formal.passed_separately and len(formal.scalars or ()) > 1
        place = apart(formal, self._assign) if separate else self._assign(formal)
        if not self._lost and not self._shifts.follow(formal, place):
            self._lost = unknown = self._shifts.reason
        unknown = unknown or self._shifts.why_unreliable(place)
        listed = bool(formal.pieces) and bool(place.words)
        if separate and not listed:
            return Location(reason=unknown) if unknown else place
        if not separate and _is_word(formal) and 0 <= formal.register < WORD_REGISTERS:
            place = Location(words=(Fetch(register=f"x{formal.register}"),))
        elif listed:
            if not separate and not agrees(
                place, [_declared_register(number) for number in formal.part_registers]
            ):
                self._lost = UNKNOWN
            return as_described(formal, place, _declared_register, unknown)
        elif unknown:
            return Location(reason=unknown)
        elif not agrees(place, [f"x{number}" for number in formal.part_registers]):
            # LLVM may promote what the convention has on the stack to parameters of its own.
            self._lost = UNKNOWN
            return Location(reason=UNKNOWN)
        return _referred(place) if formal.reference else place

    def _assign(self, formal: Formal) -> Location:
        if formal.reference:
            return self._in_integers(1, 8)
        if formal.scalars is None:
            self._lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return Location(reason=UNKNOWN)
        if not formal.size:
            return Location()
        alignment = max((s.size for s in formal.scalars), default=1)
        floats = _homogeneous(formal.size, formal.scalars)
        if floats:
            return self._in_vectors(floats, formal.size, alignment)
        if formal.size > 16:
            return _referred(self._in_integers(1, 8))  # B.4
        return self._in_integers(-(-formal.size // 8), alignment)

    def _in_integers(self, words: int, alignment: int) -> Location:
        if alignment == 16:
            self._integers += self._integers % 2  # C.10
        if self._integers + words <= len(ARGUMENTS):
            names = ARGUMENTS[self._integers : self._integers + words]
            self._integers += words
            return Location(words=tuple(Fetch(register=name) for name in names))
        self._integers = len(ARGUMENTS)  # C.13
        return self._push(8 * words, alignment)

    def _in_vectors(self, floats: tuple[Scalar, ...], size: int, alignment: int) -> Location:
        first, self._vectors = self._vectors, self._vectors + len(floats)
        if self._vectors <= VECTORS:
            # One register a float, which the kernel does not show.
            words = [f"float in v{first}"] * -(-size // 8)
            for number, scalar in enumerate(floats):
                if not scalar.offset % 8:
                    words[scalar.offset // 8] = f"float in v{first + number}"
            return Location(words=tuple(words))
        self._vectors = VECTORS  # C.3
        return self._push(size, alignment)

    def _push(self, size: int, alignment: int) -> Location:
        boundary = 16 if alignment == 16 else 8  # C.14
        offset = -(-self._stack // boundary) * boundary
        self._stack = offset + -(-size // 8) * 8
        return Location(memory=Fetch(base="stack", offset=offset))


def _declared_register(number: int) -> str:
    """What a place calls the register with a DWARF number."""
    return f"x{number}" if number < WORD_REGISTERS else f"float in v{number - DWARF_VECTOR}"


def _is_word(formal: Formal) -> bool:
    """Whether one integer register holds it."""
    if formal.reference:
        return True
    scalars = formal.scalars or ()
    return 0 < formal.size <= 8 and not _homogeneous(formal.size, scalars)


def _homogeneous(size: int, scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """The floats of a value that is one, or a composite of up to four alike; else none."""
    floats = tuple(dict.fromkeys(scalars))
    if not 1 <= len(floats) <= HOMOGENEOUS:
        return ()
    alike = all(s.kind != "integer" and s.size == floats[0].size for s in floats)
    return floats if alike and size == len(floats) * floats[0].size else ()


def _referred(place: Location) -> Location:
    """A value to which a pointer in ``place`` leads."""
    if place.memory is not None:
        return Location(memory=dereferenced(place.memory))
    return Location(memory=cast(Fetch, place.words[0]))
