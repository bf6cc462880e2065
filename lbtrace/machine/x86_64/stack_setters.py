"""Instructions that set the x86-64 stack pointer, and to what."""

from __future__ import annotations

from iced_x86 import FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.held_values import Value
from lbtrace.machine.x86_64.frame_values import FrameValues
from lbtrace.machine.x86_64.operands import CONDITIONAL_MOVES

_FRAME = frozenset({Register.RSP, Register.RBP})
_SETS = frozenset({Mnemonic.MOV, Mnemonic.LEA, *CONDITIONAL_MOVES})

SHIFTS = frozenset({Mnemonic.ADD, Mnemonic.SUB, Mnemonic.XADD})
STRAIGHT = SHIFTS | {Mnemonic.AND}
"""What may make room for an array, or align the stack, unless it leaves straight after."""


def loads(instruction: Instruction) -> bool:
    """Whether an instruction sets rsp to what is in another register or in memory."""
    if instruction.mnemonic == Mnemonic.XCHG:
        return Register.RSP in (instruction.op0_register, instruction.op1_register)
    return bool(instruction.mnemonic == Mnemonic.MOV and instruction.op0_register == Register.RSP)


def may_set_stack(instruction: Instruction) -> bool:
    """Whether an instruction sets rsp, or rbp, of which it may be set then."""
    if instruction.op0_register in _FRAME or instruction.mnemonic == Mnemonic.LEAVE:
        return True
    exchanges = instruction.mnemonic in (Mnemonic.XCHG, Mnemonic.XADD)
    return bool(exchanges and instruction.op1_register == Register.RSP)


def source_of(instruction: Instruction) -> int:
    """The register that rsp is set to, or by which it is loaded."""
    exchanged = instruction.op1_register == Register.RSP
    source: int = instruction.op0_register if exchanged else instruction.op1_register
    return source or instruction.memory_base


def may_be_switch(instruction: Instruction, value: Value, leaves: int) -> bool:
    """Whether rsp may be set to another stack by an instruction that sets it to ``value``.

    Arrays of variable length are made by SUB, before switches.
    """
    if instruction.mnemonic == Mnemonic.SUB and leaves != FlowControl.RETURN:
        return False
    if instruction.mnemonic in STRAIGHT and leaves == FlowControl.INDIRECT_CALL:
        return False
    return value <= Value.ARGUMENT


def new_value(values: FrameValues, instruction: Instruction) -> Value:
    """What an instruction sets rsp or rbp to. How far they are moved may be computed of rsp, too,
    and shows nothing; no compiler exchanges rsp with memory to restore it."""
    mnemonic = instruction.mnemonic
    if mnemonic == Mnemonic.POP:
        return values.popped()
    if mnemonic == Mnemonic.XCHG and instruction.op1_register == Register.RSP:
        in_memory = instruction.op0_kind == OpKind.MEMORY
        return Value.FOREIGN if in_memory else values.of_operand(instruction, 0)
    if mnemonic == Mnemonic.XCHG or mnemonic in _SETS:
        return values.of_operand(instruction, 1)
    return Value.OWN if mnemonic == Mnemonic.LEAVE else Value.FOREIGN


def shifts(instruction: Instruction) -> bool:
    """Whether rsp is moved by what a register holds."""
    shifts = instruction.op0_register == Register.RSP and instruction.mnemonic in SHIFTS
    return bool(shifts and instruction.op1_kind == OpKind.REGISTER)


def moves_both(instruction: Instruction, following: Instruction) -> bool:
    """Whether rsp and rbp are moved alike, as greenlet does: what follows is still its own."""
    return bool(
        instruction.mnemonic == following.mnemonic == Mnemonic.ADD
        and instruction.op1_kind == following.op1_kind == OpKind.REGISTER
        and instruction.op1_register == following.op1_register
        and following.op0_register == Register.RBP
    )
