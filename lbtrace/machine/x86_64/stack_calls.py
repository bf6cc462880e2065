"""Where code that calls a function on another stack takes up its own again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import Restoration
from lbtrace.machine.x86_64.kept_pointers import fetch_pointer, sets_stack
from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Fetch

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


def is_kept(pointer: Fetch, before: Iterable[Instruction]) -> bool:
    """Return whether what ``pointer`` fetches is rsp after the instructions ``before``, as the last
    of them show: they put it there, and it has not moved since."""
    kept = False
    for instruction in before:
        if _keeps(instruction) == pointer:
            kept = True
        elif instruction.flow_control != FlowControl.NEXT or instruction.is_stack_instruction:
            kept = False
        elif instruction.op0_register in REGISTERS:
            written = REGISTERS[instruction.op0_register]
            kept &= written not in (pointer.register, REGISTERS[Register.RSP])
    return kept


def _keeps(instruction: Instruction) -> Fetch | None:
    """What fetches rsp where an instruction puts it."""
    taken = instruction.mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RSP
    if not taken or instruction.op0_register == Register.RSP:
        return None
    return fetch_pointer(instruction)


def _pops_stack(instruction: Instruction) -> bool:
    return bool(instruction.mnemonic == Mnemonic.POP and instruction.op0_register == Register.RSP)
