"""The procedure call standard of arm64.

Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64),
sections 5.9 (composite types), 6.8.2 (parameter passing), 6.9 (results). The
rules cited below (B.4, C.12 …) are those of 6.8.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

from lbtrace.arch import SHALLOW, ExitFinder, Passing, Places, Planner, StackSwitch, fetched
from lbtrace.arch.places import Detail, Place, apart, dereferenced, told
from lbtrace.model import Fetch, Formal, Prototype, Scalar, Void

ARGUMENTS = tuple(f"x{n}" for n in range(8))
"""Integer arguments, in order; results come back in the first of them."""

VECTORS = 8
"""Arguments that vector registers take: v0 to v7."""

REGISTERS = (*(f"x{n}" for n in range(31)), "sp", "pc")
"""Those that expressions name: the words of ``struct user_pt_regs``."""

HOMOGENEOUS = 4
"""Floats that a composite of nothing else may have, to travel in vector registers (5.9.5)."""

WORD_REGISTERS = 31
"""x0 to x30 have these DWARF numbers (DWARF for the Arm 64-bit Architecture, 4.1)."""

CALL_SINKS = 0
"""A call keeps the return address in a register."""

UNKNOWN = "how it is passed is unknown"


def planner() -> Planner:
    """A chooser of probe places in arm64 code."""
    from lbtrace.arch.arm64_sites import Arm64Planner

    return Arm64Planner()


def exit_finder() -> ExitFinder:
    """A finder of the places at which arm64 functions are left."""
    from lbtrace.arch.arm64_returns import Arm64ExitFinder

    return Arm64ExitFinder()


def stack_switches(code: bytes, address: int) -> Iterator[StackSwitch]:
    """Where ``code`` at ``address`` takes up another stack."""
    from lbtrace.arch import arm64_switch

    return arm64_switch.stack_switches(code, address)


def behind_calls(
    code: bytes, address: int, targets: Collection[int], starts: Sequence[int]
) -> Iterator[int]:
    """The addresses behind the calls of ``targets`` in ``code`` at ``address``."""
    from lbtrace.arch import arm64_calls

    return arm64_calls.behind_calls(code, address, targets)


def passing(prototype: Prototype, limit: int, detail: Detail = SHALLOW) -> Passing:
    """How the values of ``prototype`` travel; ``limit`` and ``detail`` bound what is fetched."""
    return fetched(prototype, places(prototype), limit, detail)


def places(prototype: Prototype) -> Places:
    """Where the values of ``prototype`` lie.

    A parameter whose place cannot be told makes the places of those behind
    it unknown as well.
    """
    taken = _Taken()
    parameters = tuple(told(formal, taken.take(formal)) for formal in prototype.parameters)
    return Places(parameters, _result(prototype.result))


def _result(formal: Formal | None) -> Place:
    """It comes back as if it were the first argument, or in memory: at the
    address that x8 held at entry, and may not hold at return (6.9)."""
    if formal is None or isinstance(formal.type, Void):
        return Place()
    place = _Taken().take(formal)
    if formal.reference or place.memory is not None:
        return Place(memory=Fetch(base="kept", register="x8"))
    return place


class _Taken:
    """The registers and stack slots that earlier parameters left."""

    def __init__(self) -> None:
        self._integers = 0  # NGRN
        self._vectors = 0  # NSRN
        self._stack = 0  # NSAA, from the stack pointer at entry
        self._lost = ""

    def take(self, formal: Formal) -> Place:
        """Where ``formal`` lies."""
        if formal.lost:
            return Place(reason=formal.lost)
        unknown = self._lost
        if formal.split and len(formal.scalars or ()) > 1:
            place = apart(formal, self._assign)
            return Place(reason=unknown) if unknown else place
        place = self._assign(formal)
        if _is_word(formal) and 0 <= formal.register < WORD_REGISTERS:
            place = Place(words=(Fetch(register=f"x{formal.register}"),))
        elif unknown:
            return Place(reason=unknown)
        return _referred(place) if formal.reference else place

    def _assign(self, formal: Formal) -> Place:
        if formal.reference:
            return self._in_integers(1, 8)
        if formal.scalars is None:
            self._lost = f"{UNKNOWN} after {formal.name or 'an unnamed parameter'}"
            return Place(reason=UNKNOWN)
        if not formal.size:
            return Place()
        alignment = max((s.size for s in formal.scalars), default=1)
        floats = _homogeneous(formal.size, formal.scalars)
        if floats:
            return self._in_vectors(floats, formal.size, alignment)
        if formal.size > 16:
            return _referred(self._in_integers(1, 8))  # B.4
        return self._in_integers(-(-formal.size // 8), alignment)

    def _in_integers(self, words: int, alignment: int) -> Place:
        if alignment == 16:
            self._integers += self._integers % 2  # C.10
        if self._integers + words <= len(ARGUMENTS):
            names = ARGUMENTS[self._integers : self._integers + words]
            self._integers += words
            return Place(words=tuple(Fetch(register=name) for name in names))
        self._integers = len(ARGUMENTS)  # C.13
        return self._push(8 * words, alignment)

    def _in_vectors(self, floats: tuple[Scalar, ...], size: int, alignment: int) -> Place:
        first, self._vectors = self._vectors, self._vectors + len(floats)
        if self._vectors <= VECTORS:
            # One register a float, which the kernel does not show.
            words = [f"float in v{first}"] * -(-size // 8)
            for number, scalar in enumerate(floats):
                if not scalar.offset % 8:
                    words[scalar.offset // 8] = f"float in v{first + number}"
            return Place(words=tuple(words))
        self._vectors = VECTORS  # C.3
        return self._push(size, alignment)

    def _push(self, size: int, alignment: int) -> Place:
        boundary = 16 if alignment == 16 else 8  # C.14
        offset = -(-self._stack // boundary) * boundary
        self._stack = offset + -(-size // 8) * 8
        return Place(memory=Fetch(base="stack", offset=offset))


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


def _referred(place: Place) -> Place:
    """A value to which a pointer in ``place`` leads."""
    if place.memory is not None:
        return Place(memory=dereferenced(place.memory))
    return Place(memory=cast(Fetch, place.words[0]))
