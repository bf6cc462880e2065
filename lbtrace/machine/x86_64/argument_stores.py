"""What an unoptimised x86-64 function stores in its frame before it branches."""

from __future__ import annotations

from collections.abc import Iterator

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, RegisterExt

from lbtrace.machine.code import CONSTANT, Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

_INFO = iced_x86.InstructionInfoFactory()

FRAME_POINTER = "bp"

KEEPING = frozenset({Mnemonic.AND, Mnemonic.MOV, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.MOVSXD})
"""With these a number remains what it is: clang clears the upper bits of a bool."""

CHANGELESS = frozenset({Mnemonic.CMP, Mnemonic.TEST})


def argument_stores(code: Code) -> dict[tuple[str, int], str]:
    """See `lbtrace.machine.Machine.find_argument_stores`."""
    first: dict[int, str] = {}
    now: dict[int, str] = {}
    held = {name: name for name in REGISTERS.values()}
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != FlowControl.NEXT:
            break
        source = _source(instruction, held, now)
        slot = _slot(instruction) if instruction.op0_kind == OpKind.MEMORY else None
        if slot is not None and instruction.mnemonic not in CHANGELESS:
            first.setdefault(slot, source)
            now[slot] = source
        for name in _written(instruction):
            held[name] = source
    return {(FRAME_POINTER, offset): source for offset, source in first.items()}


def _source(instruction: Instruction, held: dict[str, str], frame: dict[int, str]) -> str:
    """What an instruction copies: the register that held it at entry, `CONSTANT` or ""."""
    if instruction.mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
        return CONSTANT
    if instruction.mnemonic not in KEEPING:
        return ""
    narrows = instruction.mnemonic == Mnemonic.AND
    kind = instruction.op0_kind if narrows else instruction.op1_kind
    if kind == OpKind.MEMORY:
        slot = _slot(instruction)
        return "" if slot is None else frame.get(slot, "")
    if kind != OpKind.REGISTER:
        return CONSTANT
    register = instruction.op0_register if narrows else instruction.op1_register
    return held.get(REGISTERS.get(RegisterExt.full_register(register), ""), "")


def _slot(instruction: Instruction) -> int | None:
    """The offset from the frame pointer of an instruction's operand in memory."""
    if instruction.memory_base != Register.RBP or instruction.memory_index != Register.NONE:
        return None
    displacement = instruction.memory_displacement
    return displacement - (1 << 64) if displacement >> 63 else displacement


def _written(instruction: Instruction) -> Iterator[str]:
    for used in _INFO.info(instruction).used_registers():
        if used.access in WRITES:
            yield REGISTERS.get(RegisterExt.full_register(used.register), "")
