"""How many arguments are shown of functions of which nothing is declared: as many integers as their
code reads."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import UNKNOWN, Prototype, Value
from lbtrace.plan.compiler_quirks import FunctionBody
from lbtrace.plan.compiler_quirks.function_body import BEGINNING
from lbtrace.plan.value_selection import REGISTER_ARGUMENTS, sized

VARIADIC = "ax"
"""On x86-64 it says how many vector registers are passed to a function that takes any number of
arguments (System V ABI, 3.5.7). Such a function saves all registers, whatever it is passed."""

MORE = Value("", UNKNOWN, -1, "…")
"""In place of further arguments, which there may be."""


def count_read(body: FunctionBody) -> int | None:
    """Return how many integers the function reads as its caller passed them, up to the last; None
    where that is not known."""
    registers = _registers(body.machine.name)
    read = body.machine.find_entry_reads(
        body.beginning(BEGINNING), (*registers, VARIADIC), body.read
    )
    if read is None or VARIADIC in read:
        return None
    return max((registers.index(register) + 1 for register in read), default=0)


def with_more(values: CallValues) -> CallValues:
    """Return ``values`` that may not be all."""
    return replace(values, parameters=(*values.parameters, MORE))


@cache
def _registers(machine: str) -> tuple[str, ...]:
    places = locate_values(machine, sized(Prototype(()), REGISTER_ARGUMENTS)).parameters
    return tuple(register for place in places for register in place.registers)
