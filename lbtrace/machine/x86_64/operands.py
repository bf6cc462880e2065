"""Registers and operands, as iced-x86 describes them."""

from __future__ import annotations

from iced_x86 import Instruction, Mnemonic, OpAccess, OpKind, Register

WRITES = frozenset(
    {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)
REGISTERS = {
    getattr(Register, "R" + name.upper()): name
    for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
} | {getattr(Register, f"R{n}"): f"r{n}" for n in range(8, 16)}

FLAGS = ("A", "AE", "B", "BE", "E", "NE", "G", "GE", "L", "LE", "NO", "NP", "NS", "O", "P", "S")
"""The conditions of ``cmov`` and ``set``, as iced-x86 names them."""
CONDITIONAL_MOVES = frozenset(getattr(Mnemonic, f"CMOV{flag}") for flag in FLAGS)

IMMEDIATES = range(OpKind.IMMEDIATE8, OpKind.IMMEDIATE32TO64 + 1)


def added_number(instruction: Instruction) -> int | None:
    """The number that ADD or SUB adds or subtracts; None where a register or memory has it."""
    if instruction.op1_kind not in IMMEDIATES:
        return None
    number = instruction.immediate(1)
    return number - (number >> 63 << 64)
