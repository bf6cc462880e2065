"""Whether an x86-64 function leaves a result in a register, and whether its callers use it."""

from __future__ import annotations

import iced_x86
from iced_x86 import (
    Decoder,
    FlowControl,
    Instruction,
    Mnemonic,
    OpKind,
    Register,
    RegisterExt,
)

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES
from lbtrace.machine.x86_64.result_writes import READS

_INFO = iced_x86.InstructionInfoFactory()

FRAME = frozenset({Register.RSP, Register.RBP, Register.RBX})

ONWARD = frozenset({FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH})


def leaves_result(code: Code, register: str) -> bool:
    """See `lbtrace.machine.Machine.leaves_result`."""
    left, returns, ends_elsewhere = False, False, False
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control == FlowControl.RETURN:
            returns = True
            if left:
                return True
        if instruction.flow_control == FlowControl.UNCONDITIONAL_BRANCH:
            within = code.address <= instruction.near_branch_target < code.limit
            ends_elsewhere = ends_elsewhere or not within
        if instruction.flow_control != FlowControl.NEXT:
            left = False
            continue
        reads, writes = _uses(instruction, register)
        if writes and instruction.mnemonic != Mnemonic.POP:
            left = not _loads(instruction)
        elif reads or writes:
            left = False
    return not (returns or ends_elsewhere)


def uses_result(code: bytes, register: str) -> bool:
    """See `lbtrace.machine.Machine.uses_result`."""
    for instruction in Decoder(64, code):
        if instruction.flow_control not in ONWARD:
            return False
        reads, writes = _uses(instruction, register)
        if reads:
            return True
        if writes:
            return False
    return False


def _loads(instruction: Instruction) -> bool:
    """Whether an instruction reads memory other than the function's frame: of what is volatile that
    remains where nobody needs it."""
    is_load = instruction.op_count > 1 and instruction.op1_kind == OpKind.MEMORY
    if instruction.mnemonic == Mnemonic.LEA:  # it reads none
        return False
    return is_load and instruction.memory_base not in FRAME


def _uses(instruction: Instruction, register: str) -> tuple[bool, bool]:
    """Whether an instruction reads a register, in whole or in part, and whether it writes it."""
    accesses = {
        used.access
        for used in _INFO.info(instruction).used_registers()
        if _name(used.register) == register
    }
    return not accesses.isdisjoint(READS), not accesses.isdisjoint(WRITES)


def _name(register: int) -> str:
    if RegisterExt.is_vector_register(register):  # type: ignore[arg-type]
        return f"xmm{RegisterExt.number(register)}"  # type: ignore[arg-type]
    return REGISTERS.get(RegisterExt.full_register(register), "")  # type: ignore[arg-type]
