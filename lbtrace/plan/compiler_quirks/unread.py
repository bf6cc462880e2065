"""Arguments that a function does not read: LLVM has callers in the same file pass anything there
(``DeadArgumentEliminationPass::removeDeadArgumentsFromCallers``)."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.locations import Location
from lbtrace.model import Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import FunctionBody
from lbtrace.plan.compiler_quirks.overwritten import LARGEST, is_read


def settle(prototype: Prototype, body: FunctionBody) -> Prototype | None:
    """Return a ``prototype`` whose parameters may be unset that the function does not certainly
    read, or pass on to one that does; None where that is not known."""
    code = body.beginning(LARGEST)
    places = locate_values(body.machine.name, prototype).parameters
    registers = set().union(*(place.registers for place in places))
    read = body.machine.find_entry_reads(code, registers, body.read)
    if read is None:
        return None
    stack = body.machine.find_caller_reads(code, every=True) or frozenset()

    def is_unset(formal: Formal, place: Location) -> bool:
        memory = place.memory
        if memory is not None and memory.base == "stack":
            return not is_read(stack, memory.offset, formal.size or 1)
        return not read.issuperset(place.registers)

    parameters = tuple(
        replace(formal, may_be_unset=True) if is_unset(formal, place) else formal
        for formal, place in zip(prototype.parameters, places, strict=True)
    )
    return replace(prototype, parameters=parameters)
