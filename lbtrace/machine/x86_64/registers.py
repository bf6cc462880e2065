"""The registers of x86-64, by the names of ``struct pt_regs``."""

from __future__ import annotations

DWARF_REGISTERS = (
    *("ax", "dx", "cx", "bx", "si", "di", "bp", "sp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
"""Integer registers by their DWARF number (psABI, figure 3.36)."""

REGISTERS = (*DWARF_REGISTERS, "ip", "flags")
"""Registers that can be read."""

RETURN_ADDRESS_SIZE = 8
"""A call pushes the return address."""
