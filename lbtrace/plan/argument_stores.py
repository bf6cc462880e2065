"""Parameters of unoptimised functions that are passed otherwise than their convention says.

clang compiles without optimisation, and the linker optimises across files nevertheless
(``clang -O0 -flto`` with ``lld``): LLVM then drops what a function is always passed the same for,
and debug information does not say so. The function's first instructions do: they store each
parameter from where it is at entry to where the variable is throughout the function.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lbtrace.abi import doubt, locate_values
from lbtrace.abi.dwarf_registers import find_number, find_register
from lbtrace.abi.locations import OPTIMISED_OUT, UNKNOWN, WORD, Location
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, CONSTANT, ArgumentStores, Code
from lbtrace.model import Fetch, Formal, Prototype

FRAME_POINTER = "bp"


def settle(machine: Machine, prototype: Prototype, code: Callable[[], Code]) -> Prototype:
    """``prototype``, with what its ``code`` shows where that contradicts the convention."""
    parameters = prototype.parameters
    if prototype.hints.compiler != "llvm" or all(p.frame_location is None for p in parameters):
        return prototype
    stores = machine.find_argument_stores(code())
    if stores is None:
        return prototype
    places = locate_values(machine.name, prototype).parameters
    if not any(
        _contradicts(machine, formal, place, stores)
        for formal, place in zip(parameters, places, strict=True)
    ):
        return prototype
    result = prototype.result
    if result is not None:
        result = replace(result, missing_reason=result.missing_reason or UNKNOWN)
    found = tuple(_as_stored(machine, formal, stores) for formal in doubt(prototype).parameters)
    return replace(prototype, parameters=found, result=result)


def _contradicts(machine: Machine, formal: Formal, place: Location, stores: ArgumentStores) -> bool:
    """Whether something else is stored as a parameter than what is in its ``place``."""
    return any(
        _stored(machine, formal, start, stores) not in ("", word.register)
        for word, start, _ in place.spans()
        if isinstance(word, Fetch) and word.base == "register" and not word.derefs
    )


def _as_stored(machine: Machine, formal: Formal, stores: ArgumentStores) -> Formal:
    stored = _stored(machine, formal, 0, stores)
    if not stored or formal.size > WORD:
        return formal
    if stored == CONSTANT:
        return replace(formal, missing_reason=OPTIMISED_OUT)
    return replace(formal, register=find_number(machine.name, stored), missing_reason="")


def _stored(machine: Machine, formal: Formal, at: int, stores: ArgumentStores) -> str:
    """What is stored ``at`` bytes into a parameter, if that is known."""
    if formal.frame_location is None:
        return ""
    number, offset = formal.frame_location
    base = find_register(machine.name, number)
    if isinstance(base, str) or base.register != FRAME_POINTER:
        return ""
    name, _ = stores.find_source(FRAME_POINTER, offset + at)
    return "" if name == CALLER_STACK or name.startswith("xmm") else name
