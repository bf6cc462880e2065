"""Whether an arm64 function leaves a result in a register, and whether its callers use it."""

from __future__ import annotations

from lbtrace.machine.code import Code


def leaves_result(_code: Code, _register: str) -> bool:
    """See `lbtrace.machine.Machine.leaves_result`. Not known of arm64."""
    return True


def uses_result(_code: bytes, _register: str) -> bool:
    """See `lbtrace.machine.Machine.uses_result`. Not known of arm64."""
    return True
