"""Parameters in the caller's frame, whose location debug information gives from the stack pointer
after the function's prologue.

LLVM does so of functions without a frame pointer. What the caller pushed stays where it is: at
entry it lies farther from the stack pointer by what the prologue makes room for.
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.dwarf_registers import stack_pointer
from lbtrace.abi.shifts import may_drop
from lbtrace.model import CFA, Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype``, with locations relative to the CFA. The code is read only where the
    convention may not say where parameters are."""
    base = stack_pointer(body.machine.name)
    parameters = prototype.parameters
    relative = any(p.frame_location is not None and p.frame_location[0] == base for p in parameters)
    if not relative or not any(map(may_drop, parameters)):
        return prototype
    size = body.machine.find_frame_size(body.beginning(BEGINNING))
    if size is None:
        return prototype
    return replace(
        prototype, parameters=tuple(_from_cfa(formal, base, size) for formal in parameters)
    )


def _from_cfa(formal: Formal, base: int, size: int) -> Formal:
    if formal.frame_location is None or formal.frame_location[0] != base:
        return formal
    return replace(formal, frame_location=(CFA, formal.frame_location[1] - size))
