"""Parameters that are in the register that debug information names, but not yet at entry.

LLVM names one register for the whole function where nothing changes it later on, though the
function may load it from the stack first (``validThroughout`` in its ``DwarfDebug.cpp``: what
comes before the variable's scope does not count).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.model import Formal, Prototype


def confirm(machine: Machine, prototype: Prototype, code: Callable[[], Code]) -> Prototype:
    """``prototype``, with those registers that hold their parameters at the function's entry.

    Its ``code`` is read where the convention wants something else to be there.
    """
    if all(formal.late_reason is None for formal in prototype.parameters):
        return prototype
    places = partial(locate_values, machine.name)
    declared = replace(prototype, parameters=tuple(map(_as_declared, prototype.parameters)))
    located, expected = places(prototype).parameters, places(declared).parameters
    if located == expected:
        return prototype
    written = machine.find_first_writes(code())
    parameters = tuple(
        _lose(formal)
        if formal.late_reason is not None and place != other and written & place.registers
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
    return replace(_as_declared(formal), missing_reason=formal.late_reason or "")
