"""How large the frame is that an x86-64 function makes before it does anything else."""

from __future__ import annotations

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.registers import RETURN_ADDRESS_SIZE

SAVED = frozenset(
    {Register.RBX, Register.RBP, Register.R12, Register.R13, Register.R14, Register.R15}
)
"""Registers that belong to the caller (psABI, 3.2.1)."""

ALIGNMENT = 16
"""Of the stack pointer where a function is called (psABI, 3.2.2)."""

WORD = 8


def frame_size(code: Code) -> int | None:
    """See `lbtrace.machine.Machine.find_frame_size`."""
    decoder = Decoder(64, code.code, ip=code.address)
    saved: set[int] = set()
    allocated = 0
    body: Instruction | None = None
    for instruction in decoder:
        register = instruction.op0_register if _has_register(instruction) else Register.NONE
        if instruction.mnemonic == Mnemonic.PUSH and register in SAVED - saved:
            saved.add(register)
        elif instruction.mnemonic != Mnemonic.ENDBR64:
            allocated = _allocated(instruction)
            body = None if allocated else instruction
            break
    size = RETURN_ADDRESS_SIZE + WORD * len(saved) + allocated
    if allocated and size % ALIGNMENT:
        return None  # part of it may be for the arguments of a call
    everywhere = size == RETURN_ADDRESS_SIZE
    if everywhere and code.address + len(code.code) < code.limit:
        return None
    for instruction in (*filter(None, [body]), *decoder):
        if instruction.flow_control not in (FlowControl.NEXT, FlowControl.RETURN):
            if not everywhere:
                break
            if _leaves(instruction, code):
                return None  # a frame may be made there
        elif instruction.flow_control == FlowControl.RETURN and not everywhere:
            break
        elif _changes(instruction):
            return None
    return size


def _has_register(instruction: Instruction) -> bool:
    return bool(instruction.op_count) and instruction.op0_kind == OpKind.REGISTER


def _allocated(instruction: Instruction) -> int:
    """By how much an instruction moves the stack pointer that only makes room."""
    if not _has_register(instruction):
        return 0
    if instruction.mnemonic == Mnemonic.PUSH and instruction.op0_register == Register.RAX:
        return WORD
    is_sub = instruction.mnemonic == Mnemonic.SUB and instruction.op0_register == Register.RSP
    if not is_sub or instruction.op1_kind in (OpKind.REGISTER, OpKind.MEMORY):
        return 0
    amount = instruction.immediate(1)
    return amount - (1 << 64) if amount >> 63 else amount


def _leaves(instruction: Instruction, code: Code) -> bool:
    """Whether a call, or a jump to other code, may follow."""
    if instruction.is_call_near or instruction.is_call_near_indirect:
        return True
    near = instruction.op0_kind == OpKind.NEAR_BRANCH64
    return near and not code.address <= instruction.near_branch_target < code.limit


def _changes(instruction: Instruction) -> bool:
    """Whether an instruction other than a return moves the stack pointer."""
    if instruction.flow_control == FlowControl.RETURN:
        return False
    compares = instruction.mnemonic in (Mnemonic.CMP, Mnemonic.TEST)
    moves = _has_register(instruction) and instruction.op0_register == Register.RSP
    return instruction.is_stack_instruction or (moves and not compares)
