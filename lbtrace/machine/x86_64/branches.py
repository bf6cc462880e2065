"""What an x86-64 jump needs to leave the function: flags that make it jump, a target outside."""

from __future__ import annotations

from iced_x86 import Instruction, OpKind, Register

from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Jump
from lbtrace.model.wire_limits import FLAG_LESS

_CARRY, _PARITY, _ZERO, _SIGN, _OVERFLOW = 0x1, 0x4, 0x40, 0x80, 0x800
"""Bits of EFLAGS: Intel SDM volume 1, 3.4.3."""

_FLAGS = (
    _OVERFLOW,
    _CARRY,
    _ZERO,
    _CARRY | _ZERO,
    _SIGN,
    _PARITY,
    FLAG_LESS,
    FLAG_LESS | _ZERO,
)
"""Flags of which one must be set for a condition with an even number, and none for the odd one
after it: Intel SDM volume 1, appendix B."""


def conditions(number: int) -> tuple[int, int]:
    """Return the flags with which a jump on a condition is not taken, and those with which it is,
    as in `Site`; none of an unconditional one (-1)."""
    if number < 0:
        return 0, 0
    flags = _FLAGS[number >> 1]
    return (flags, 0) if number & 1 else (0, flags)


def target(jump: Instruction, inside: tuple[tuple[int, int], ...]) -> Jump | None:
    """Return how a probe on an indirect jump works out where it leads; None where it cannot."""
    if jump.op0_kind == OpKind.REGISTER:
        base = REGISTERS.get(jump.op0_register)
        return Jump(base, inside=inside) if base else None
    base, index = (_name(register) for register in (jump.memory_base, jump.memory_index))
    if base is None or index is None or jump.segment_prefix in (Register.FS, Register.GS):
        return None
    offset = jump.memory_displacement
    offset -= offset >> 63 << 64
    return Jump(base, index, jump.memory_index_scale, offset, loads=True, inside=inside)


def _name(register: int) -> str | None:
    """The name of a part of an address, empty where there is none; None if it is no
    whole register."""
    return "" if register == Register.NONE else REGISTERS.get(register)
