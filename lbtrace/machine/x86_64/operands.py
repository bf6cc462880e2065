"""Registers and operands, as iced-x86 describes them."""

from __future__ import annotations

from iced_x86 import Mnemonic, OpAccess, Register

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
