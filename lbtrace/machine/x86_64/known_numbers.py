"""Which registers hold numbers that x86-64 code shows, by simple arithmetic: in the order of the
code.

A number is forgotten where ways meet, where a loop ends, and where what changes it is not counted.
"""

from __future__ import annotations

from collections.abc import Callable

from iced_x86 import Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.x86_64.operands import IMMEDIATES

READ_ONLY = frozenset({Mnemonic.CMP, Mnemonic.TEST, Mnemonic.BT, Mnemonic.PUSH, Mnemonic.NOP})
"""What writes no register that it names."""

_64, _32 = (1 << 64) - 1, (1 << 32) - 1
_CLEARS = frozenset({Mnemonic.XOR, Mnemonic.SUB})
_EXTENDS = frozenset({Mnemonic.MOVSX, Mnemonic.MOVSXD, Mnemonic.MOVZX})
_SHIFTS = frozenset({Mnemonic.SHL, Mnemonic.SAL, Mnemonic.SHR, Mnemonic.SAR})
_OF_TWO: dict[int, Callable[[int, int], int]] = {
    Mnemonic.ADD: lambda one, other: one + other,
    Mnemonic.SUB: lambda one, other: one - other,
    Mnemonic.AND: lambda one, other: one & other,
    Mnemonic.OR: lambda one, other: one | other,
    Mnemonic.XOR: lambda one, other: one ^ other,
    Mnemonic.IMUL: lambda one, other: one * other,
}
_OF_ONE: dict[int, Callable[[int], int]] = {
    Mnemonic.INC: lambda one: one + 1,
    Mnemonic.DEC: lambda one: one - 1,
    Mnemonic.NEG: lambda one: -one,
    Mnemonic.NOT: lambda one: ~one,
}
_BYTES = (Register.AL, Register.R15L)
_WORDS = (Register.AX, Register.R15W)
_DOUBLES = (Register.EAX, Register.R15D)
_LOW = (Register.AL, Register.CL, Register.DL, Register.BL)
_HIGH = (Register.AH, Register.CH, Register.DH, Register.BH)


class KnownNumbers(dict[int, int]):
    """The numbers in registers, by the 64-bit register, as numbers with a sign."""

    def count(self, instruction: Instruction) -> None:
        """Note what an instruction that is no branch leaves in registers, after all else."""
        mnemonic, operands = instruction.mnemonic, instruction.op_count
        if mnemonic in READ_ONLY:
            return
        number = self._computed(instruction) if operands else None
        if operands < 2 and mnemonic not in _OF_ONE and mnemonic != Mnemonic.POP:
            self.clear()
        if instruction.is_string_instruction:
            self.clear()
        for place in range(operands if mnemonic in _WRITES_BOTH else min(operands, 1)):
            if instruction.op_kind(place) == OpKind.REGISTER:
                self.pop(whole(instruction.op_register(place)), None)
        if mnemonic == Mnemonic.CMPXCHG:
            self.pop(Register.RAX, None)
        if number is not None:
            first = instruction.op0_register
            self[whole(first)] = signed(number & (_64 if _is_in(first, _WHOLES) else _32))

    def _computed(self, instruction: Instruction) -> int | None:
        """The number to which an instruction sets its first register; None where that is not
        known."""
        mnemonic, first = instruction.mnemonic, instruction.op0_register
        if instruction.op0_kind != OpKind.REGISTER:
            return None
        low_byte = _is_in(first, _BYTES) and first not in _HIGH
        if low_byte and mnemonic == Mnemonic.MOV and whole(first) in self:
            low = self._operand(instruction, 1)
            return None if low is None else (self[whole(first)] & ~0xFF & _32) | low & 0xFF
        if not (_is_in(first, _WHOLES) or _is_in(first, _DOUBLES)):
            return None
        if mnemonic == Mnemonic.LEA:
            return self._address(instruction)
        if mnemonic in _EXTENDS:
            return self._extended(instruction)
        return self._calculated(instruction)

    def _calculated(self, instruction: Instruction) -> int | None:
        """What an instruction computes of its operands."""
        mnemonic, first = instruction.mnemonic, instruction.op0_register
        same = instruction.op1_kind == OpKind.REGISTER and instruction.op1_register == first
        if mnemonic in _CLEARS and same:
            return 0
        last = instruction.op_count - 1
        other = self._operand(instruction, last)
        one = self._operand(instruction, 1 if last == 2 else 0)
        if mnemonic == Mnemonic.MOV:
            return other
        if one is None or other is None:
            return None
        if mnemonic in _SHIFTS:
            return _shifted(mnemonic, one, other, 64 if _is_in(first, _WHOLES) else 32)
        if mnemonic in _OF_ONE:
            return _OF_ONE[mnemonic](one)
        return _OF_TWO[mnemonic](one, other) if mnemonic in _OF_TWO and last else None

    def _operand(self, instruction: Instruction, place: int) -> int | None:
        kind = instruction.op_kind(place)
        if kind == OpKind.REGISTER:
            register = instruction.op_register(place)
            return None if register in _HIGH else self.get(whole(register))
        return signed(instruction.immediate(place)) if kind in IMMEDIATES else None

    def _address(self, instruction: Instruction) -> int | None:
        """What LEA computes of numbers alone."""
        found = signed(instruction.memory_displacement)
        for register, scale in (
            (instruction.memory_base, 1),
            (instruction.memory_index, instruction.memory_index_scale),
        ):
            if register == Register.NONE:
                continue
            number = self.get(register)
            if number is None:
                return None
            found += number * scale
        return found

    def _extended(self, instruction: Instruction) -> int | None:
        number = self._operand(instruction, 1)
        register = instruction.op1_register
        if number is None:
            return None
        bits = 8 if _is_in(register, _BYTES) else 16 if _is_in(register, _WORDS) else 32
        number &= (1 << bits) - 1
        signs = instruction.mnemonic != Mnemonic.MOVZX and number >> (bits - 1)
        return number - (1 << bits) if signs else number


_WRITES_BOTH = frozenset({Mnemonic.XCHG, Mnemonic.XADD})
_WHOLES = (Register.RAX, Register.R15)


def whole(register: int) -> int:
    """Return the 64-bit register of which a register is a part."""
    for first, last in (_WHOLES, _DOUBLES, _WORDS):
        if first <= register <= last:
            return register - first + Register.RAX
    if register in _LOW or register in _HIGH:
        return Register.RAX + (register - Register.AL) % 4
    if _is_in(register, _BYTES):
        return register - Register.SPL + Register.RSP
    return Register.NONE


def signed(number: int) -> int:
    """Return a number of 64 bits with its sign."""
    return number - (1 << 64) if number >> 63 else number


def _is_in(register: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= register <= bounds[1]


def _shifted(mnemonic: int, one: int, by: int, bits: int) -> int:
    count = by & (bits - 1)
    one &= (1 << bits) - 1
    if mnemonic == Mnemonic.SHR:
        return one >> count
    if mnemonic == Mnemonic.SAR:
        return (one - (1 << bits) if one >> (bits - 1) else one) >> count
    return one << count
