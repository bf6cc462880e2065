"""Parameters that are in the register that debug information names, but not yet at entry.

LLVM names one register for the whole function where nothing changes it later on, though the
function may load it from the stack first (``validThroughout`` in its ``DwarfDebug.cpp``: what
comes before the variable's scope does not count). gcc names the register to which it moves a
parameter, wherever it does so, or meant to, if it has not followed how variables move: there the
convention tells where parameters are. It does not tell of clones.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.model import Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype``, with those registers that hold their parameters at the function's
    entry. Code is read where the convention wants something else to be there."""
    machine = body.machine
    if all(formal.late_reason is None for formal in prototype.parameters):
        return prototype
    if prototype.filled_late:
        without = (f if f.late_reason is None else _lose(f) for f in prototype.parameters)
        return replace(prototype, parameters=tuple(without))
    places = partial(locate_values, machine.name)
    declared = replace(prototype, parameters=tuple(map(_as_declared, prototype.parameters)))
    located, expected = places(prototype).parameters, places(declared).parameters
    if located == expected and not prototype.leaves_out:
        return prototype
    written = machine.find_first_writes(body.beginning(BEGINNING))
    parameters = tuple(
        _lose(formal)
        if formal.late_reason is not None
        and (place != other or prototype.leaves_out)
        and written & place.registers
        else formal
        for formal, place, other in zip(prototype.parameters, located, expected, strict=True)
    )
    return replace(prototype, parameters=parameters)


def _as_declared(formal: Formal) -> Formal:
    return (
        formal
        if formal.late_reason is None
        else replace(formal, register=-1, part_registers=(), pieces=())
    )


def _lose(formal: Formal) -> Formal:
    reason = formal.missing_reason or formal.late_reason or ""
    return replace(_as_declared(formal), address=-1, missing_reason=reason)
