"""The procedure call standard of arm64, for integers and pointers.

Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64),
section 6.8.2.
"""

from __future__ import annotations

from collections.abc import Collection

from lbtrace.arch import Code, ExitFinder, Passing, Planner
from lbtrace.model import Fetch, Opaque, Prototype, Site, Value, Void

ARGUMENTS = tuple(f"x{n}" for n in range(8))
RESULT = "x0"


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


def passing(prototype: Prototype, limit: int) -> Passing:
    """Integers, pointers and the like in x0 to x7.

    Behind the first parameter of another kind nothing is read: it may or may
    not take integer registers.
    """
    result = None
    result_fetches: tuple[Fetch, ...] = ()
    if prototype.result and not isinstance(prototype.result.type, Void):
        simple = not isinstance(prototype.result.type, Opaque)
        result = Value("", prototype.result.type, 0 if simple else -1)
        result_fetches = (Fetch(register=RESULT),) if simple else ()
    # A result in memory is passed in x8 and takes no argument register.
    values: list[Value] = []
    fetches: list[Fetch] = []
    cut = 0
    reason = ""
    for formal in prototype.parameters:
        if isinstance(formal.type, Opaque) or formal.lost:
            values.append(Value(formal.name, formal.type, -1, formal.lost))
            reason = reason or f"how it is passed after {formal.name} is unknown"
        elif reason or len(fetches) == min(limit, len(ARGUMENTS)):
            cut += not reason
            values.append(Value(formal.name, formal.type, -1, reason or "no slot left"))
        else:
            values.append(Value(formal.name, formal.type, len(fetches)))
            fetches.append(Fetch(register=ARGUMENTS[len(fetches)]))
    return Passing(tuple(values), result, tuple(fetches), result_fetches, cut)
