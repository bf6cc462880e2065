"""Where code that calls a function on another stack takes up its own again."""

from __future__ import annotations

from collections.abc import Callable

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import Restoration
from lbtrace.machine.x86_64.kept_pointers import fetch_pointer, sets_stack

_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_GOES_ON = frozenset({FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH, *_CALLS})


def comes_back(
    switch: Instruction, decode: Callable[[int], Decoder], *, most: int
) -> Restoration | None:
    """Return what sets rsp to a former value after a call on the stack to which ``switch`` leads,
    if it is among the next ``most`` instructions; ``decode`` reads code from an address on."""
    line, called = decode(switch.next_ip), False
    for _ in range(most):
        instruction = line.decode()
        flow = instruction.flow_control
        if sets_stack(instruction) or _pops_stack(instruction):
            pointer = fetch_pointer(instruction)
            return Restoration(instruction.ip, pointer) if called and pointer else None
        called |= flow in _CALLS
        near = instruction.op0_kind == OpKind.NEAR_BRANCH64
        if flow == FlowControl.UNCONDITIONAL_BRANCH and near:
            line = decode(instruction.near_branch_target)
        elif flow not in _GOES_ON or instruction.is_invalid:
            return None
    return None


def _pops_stack(instruction: Instruction) -> bool:
    return bool(instruction.mnemonic == Mnemonic.POP and instruction.op0_register == Register.RSP)
