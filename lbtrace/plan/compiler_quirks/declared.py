"""Where a convention has the parameters of a function as they are declared."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.dwarf_registers import find_register
from lbtrace.abi.locations import Location
from lbtrace.machine import Machine
from lbtrace.model import Formal, Prototype

LANGUAGES = frozenset({"c", "c++"})
"""Of which callers were seen that do not fill a struct in their frame for a function that does not
read it. Others' code may reach it by another register than debug information names."""


def is_as_declared(prototype: Prototype) -> bool:
    """Return whether LLVM certainly passes a function all that it declares, as the convention has
    it, though not where the function does not read it."""
    hints = prototype.hints
    return (
        hints.compiler == "llvm"
        and hints.language in LANGUAGES
        and not (prototype.stores_all or prototype.leaves_out)
        and not any(formal.may_shift or formal.missing_reason for formal in prototype.parameters)
    )


def locate_declared(machine: Machine, prototype: Prototype) -> Sequence[Location]:
    """Return where the convention has the parameters, whatever debug information says."""
    declared = tuple(map(as_declared, prototype.parameters))
    return locate_values(machine.name, replace(prototype, parameters=declared)).parameters


def as_declared(formal: Formal) -> Formal:
    """Return a parameter without what debug information says of its location."""
    return formal.without_location(derived_from=-1, address=-1, may_be_unset=False, may_shift=False)


def name_register(machine: Machine, number: int) -> str:
    """Return what code calls the register with a DWARF number."""
    found = find_register(machine.name, number)
    return found.split()[-1] if isinstance(found, str) else found.register
