"""Parameters of unoptimised functions that are passed otherwise than their convention says.

clang compiles without optimisation, and the linker optimises across files nevertheless
(``clang -O0 -flto`` with ``lld``): LLVM then drops what a function is always passed the same for,
and debug information does not say so. The function's first instructions do: they store each
parameter from where it is at entry to where the variable is throughout the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from lbtrace.abi import doubt, locate_values
from lbtrace.abi.dwarf_registers import find_number, find_register
from lbtrace.abi.locations import OPTIMISED_OUT, UNKNOWN, WORD
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, CONSTANT, ArgumentStores, Code
from lbtrace.model import Fetch, Formal, Prototype

FRAME_POINTER = "bp"

LANGUAGES = frozenset({"c", "c++"})


def settle(machine: Machine, prototype: Prototype, code: Callable[[], Code]) -> Prototype:
    """``prototype``, with what its ``code`` shows where that contradicts the convention, but only
    where all that is stored is as if some parameters were not passed: optimised code may store
    something else there first."""
    parameters, hints = prototype.parameters, prototype.hints
    unoptimised = all(p.frame_location is not None for p in parameters)
    if hints.compiler != "llvm" or hints.language not in LANGUAGES or not unoptimised:
        return prototype
    stores = machine.find_argument_stores(code())
    if stores is None:
        return prototype
    places = locate_values(machine.name, prototype).parameters
    words = [
        (word.register, _stored(machine, formal, start, stores))
        for formal, place in zip(parameters, places, strict=True)
        for word, start, _ in place.spans()
        if isinstance(word, Fetch) and word.base == "register" and not word.derefs
    ]
    if all(stored in ("", expected) for expected, stored in words) or not _move_up(words):
        return prototype
    result = prototype.result
    if result is not None:
        result = replace(result, missing_reason=result.missing_reason or UNKNOWN)
    found = tuple(_as_stored(machine, formal, stores) for formal in doubt(prototype).parameters)
    return replace(prototype, parameters=found, result=result)


def _move_up(words: Sequence[tuple[str, str]]) -> bool:
    """Whether what is stored of the ``words`` of parameters, each with the register that it has by
    the convention, comes from where it is if those that are stored from none are not passed."""
    order = [expected for expected, _ in words]
    dropped = unknown = 0
    last = -1
    for number, (_, stored) in enumerate(words):
        if stored == CONSTANT:
            dropped += 1
        elif stored not in order:
            unknown += 1
        else:
            at = order.index(stored)
            if not (last < at and dropped <= number - at <= dropped + unknown):
                return False
            last = at
    return True


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
