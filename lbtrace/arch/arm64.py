"""The procedure call standard of arm64, for integers and pointers.

Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64),
section 6.8.2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from lbtrace.arch import SHALLOW, Code, ExitFinder, Passing, Places, Planner, fetched
from lbtrace.arch.fetching import Detail, Place
from lbtrace.model import Fetch, Formal, Prototype, Site

ARGUMENTS = tuple(f"x{n}" for n in range(8))
RESULT = "x0"
VECTORS = 8
REGISTERS = (*(f"x{n}" for n in range(31)), "sp", "pc")


class Arm64Planner:
    """Puts every probe on the first instruction."""

    def choose(self, code: Code, keep: Collection[str], *, returns: bool) -> Site | None:
        """The entry itself: which instructions arm64 kernels simulate is not modelled yet."""
        return Site(
            code.address,
            code.offset,
            displaced=code.code[:4][::-1].hex(),
            reason="first instruction: cheaper places are not sought on arm64 yet",
        )


def planner() -> Planner:
    """A chooser of probe places in arm64 code."""
    return Arm64Planner()


def exit_finder() -> ExitFinder:
    """A finder of the places at which arm64 functions are left."""
    from lbtrace.arch.arm64_returns import Arm64ExitFinder

    return Arm64ExitFinder()


def passing(prototype: Prototype, limit: int, detail: Detail = SHALLOW) -> Passing:
    """How the values of ``prototype`` travel; ``limit`` and ``detail`` bound what is fetched."""
    return fetched(prototype, places(prototype), limit, detail)


def places(prototype: Prototype) -> Places:
    """Integers, pointers and the like in x0 to x7, floats in v0 to v7.

    Behind the first parameter of another kind, or on the stack, nothing is
    read: it may or may not take registers.
    """
    integers = [Place(words=(Fetch(register=name),)) for name in ARGUMENTS]
    vectors = [Place(words=(f"float in v{n}",)) for n in range(VECTORS)]
    found: list[Place] = []
    lost = ""
    for formal in prototype.parameters:
        free = integers if formal.reference else _registers(formal, integers, vectors)
        if not free and not lost:
            lost = f"how it is passed after {formal.name} is unknown"
            found.append(Place(reason=formal.lost or "how it is passed is unknown"))
            continue
        place = free.pop(0) if free else Place()
        if lost or formal.lost:
            place = Place(reason=formal.lost or lost)
        elif formal.reference:
            place = Place(memory=cast(Fetch, place.words[0]))
        found.append(place)
    # A result in memory is passed in x8, which is not kept.
    result = Place(reason="how it is returned is unknown")
    if prototype.result is not None:
        kind = _registers(prototype.result, [Place(words=(Fetch(register=RESULT),))], vectors)
        result = kind[0] if kind and not prototype.result.reference else result
    return Places(tuple(found), result)


def _registers(formal: Formal, integers: list[Place], vectors: list[Place]) -> list[Place]:
    """The registers that a simple value takes one of; none for others."""
    if formal.scalars is None or len(formal.scalars) != 1 or formal.scalars[0].size > 8:
        return []
    return integers if formal.scalars[0].kind == "integer" else vectors
