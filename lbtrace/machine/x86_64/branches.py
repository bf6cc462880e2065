"""What an x86-64 jump needs to leave the function: flags that make it jump, a target outside."""

from __future__ import annotations

from iced_x86 import ConditionCode, FlowControl, Instruction, OpKind, Register

from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Jump
from lbtrace.model.wire_limits import FLAG_LESS

_CARRY, _PARITY, _ZERO, _SIGN, _OVERFLOW = 0x1, 0x4, 0x40, 0x80, 0x800
"""Bits of EFLAGS: Intel SDM volume 1, 3.4.3."""

_TAKEN = {
    ConditionCode.O: _OVERFLOW,
    ConditionCode.B: _CARRY,
    ConditionCode.E: _ZERO,
    ConditionCode.BE: _CARRY | _ZERO,
    ConditionCode.S: _SIGN,
    ConditionCode.P: _PARITY,
    ConditionCode.L: FLAG_LESS,
    ConditionCode.LE: FLAG_LESS | _ZERO,
}
"""Flags of which one must be set: Intel SDM volume 1, appendix B."""

_NOT_TAKEN = {
    ConditionCode.NO: _OVERFLOW,
    ConditionCode.AE: _CARRY,
    ConditionCode.NE: _ZERO,
    ConditionCode.A: _CARRY | _ZERO,
    ConditionCode.NS: _SIGN,
    ConditionCode.NP: _PARITY,
    ConditionCode.GE: FLAG_LESS,
    ConditionCode.G: FLAG_LESS | _ZERO,
}
"""Flags of which none may be set."""


def conditions(jump: Instruction) -> tuple[int, int]:
    """Return the flags with which a conditional jump is not taken, and those with which it is,
    as in `Site`; none of an unconditional one."""
    return _NOT_TAKEN.get(jump.condition_code, 0), _TAKEN.get(jump.condition_code, 0)


def tests_register(jump: Instruction) -> bool:
    """Return whether a jump depends on rcx (``jrcxz``, ``loop``), as only assembly has them."""
    conditional = jump.flow_control == FlowControl.CONDITIONAL_BRANCH
    return conditional and not jump.is_jcc_short_or_near


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
