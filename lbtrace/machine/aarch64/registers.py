"""The registers of arm64, by the names of ``struct user_pt_regs``."""

from __future__ import annotations

REGISTERS = (*(f"x{n}" for n in range(31)), "sp", "pc")
"""Those that can be read."""

RETURN_ADDRESS_SIZE = 0
"""A call keeps the return address in a register."""
