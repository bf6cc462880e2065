"""Parameters that are in the register that debug information names, but not yet at entry.

LLVM names one register for the whole function where nothing changes it later on, though the
function may load it from the stack first (``validThroughout`` in its ``DwarfDebug.cpp``: what
comes before the variable's scope does not count). gcc names the register to which it moves a
parameter, wherever it does so, or meant to, if it has not followed how variables move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.dwarf_registers import find_register
from lbtrace.machine import Machine
from lbtrace.model import Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody

LARGEST = 1 << 14
"""Bytes of a function's code that are read, at most: more may write all registers."""


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype``, with those registers that hold their parameters at the function's
    entry. Code is read where the convention wants something else to be there."""
    machine = body.machine
    if all(formal.late_reason is None for formal in prototype.parameters):
        return prototype
    if prototype.filled_within is not None:
        return _confirm_throughout(machine, prototype, body.read)
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


def _confirm_throughout(
    machine: Machine, prototype: Prototype, read: Callable[[int, int], bytes]
) -> Prototype:
    """`settle` where any instruction may fill the registers: the convention tells where their
    parameters are, and the registers only which one that is. It does not tell of clones."""
    if any(formal.late_reason for formal in prototype.parameters):
        filled = _may_fill(machine, prototype, read)
        return _without(prototype) if filled else prototype
    declared = _without(prototype)
    located = locate_values(machine.name, prototype).parameters
    expected = locate_values(machine.name, declared).parameters
    doubtful = located != expected and any(place.reason for place in expected)
    return prototype if doubtful and not _may_fill(machine, prototype, read) else declared


def _without(prototype: Prototype) -> Prototype:
    """``prototype`` without the registers that may be filled."""
    parameters = (f if f.late_reason is None else _lose(f) for f in prototype.parameters)
    return replace(prototype, parameters=tuple(parameters))


def _may_fill(machine: Machine, prototype: Prototype, read: Callable[[int, int], bytes]) -> bool:
    """Whether a function's code may write the registers that are named of its parameters: one
    that is named of two shows that they are not as at entry."""
    ranges = prototype.filled_within or ()
    if not ranges or sum(end - start for start, end in ranges) > LARGEST:
        return True
    names = [name for formal in prototype.parameters for name in _named(machine, formal)]
    named = {*names}
    return len(named) < len(names) or any(
        not named.isdisjoint(machine.find_writes(read(start, end - start), start))
        for start, end in ranges
    )


def _named(machine: Machine, formal: Formal) -> set[str]:
    """The registers that debug information names of a parameter."""
    numbers = {formal.register, formal.address, *formal.part_registers} - {-1}
    found = (find_register(machine.name, number) for number in numbers)
    return {each.split()[-1] if isinstance(each, str) else each.register for each in found}


def _as_declared(formal: Formal) -> Formal:
    return (
        formal
        if formal.late_reason is None
        else replace(formal, register=-1, part_registers=(), pieces=())
    )


def _lose(formal: Formal) -> Formal:
    reason = formal.missing_reason or formal.late_reason or ""
    return replace(_as_declared(formal), address=-1, missing_reason=reason)
