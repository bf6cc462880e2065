"""Results that LLVM may have left out, of functions of which it knows all callers.

Before version 16 debug information does not say whether it has: the code does, which computes
nothing at its end for which nobody asks (``DeadArgumentEliminationPass``, ``SCCPSolver``).
"""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.abi.locations import OPTIMISED_OUT, WORD
from lbtrace.model import Formal, Prototype
from lbtrace.plan.compiler_quirks.declared import LANGUAGES
from lbtrace.plan.compiler_quirks.function_body import FunctionBody

LARGEST = 1 << 14
"""Bytes of a function that are looked at."""


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype`` with its result, where that is one number and the code leaves one."""
    result, hints = prototype.result, prototype.hints
    if result is None or result.missing_reason != OPTIMISED_OUT or hints.compiler != "llvm":
        return prototype
    if hints.language not in LANGUAGES or not _is_number(result):
        return prototype
    machine = body.machine
    written = machine.find_result_writes(body.beginning(LARGEST), loads=False)
    if machine.kernel.PLAIN_RESULTS[0] not in written:
        return prototype
    return replace(prototype, result=replace(result, missing_reason=""))


def _is_number(result: Formal) -> bool:
    """Whether it is one integer or address: of several LLVM may leave out some."""
    if result.reference or result.size > WORD or not result.scalars:
        return False
    return [scalar.kind for scalar in result.scalars] == ["integer"]
