"""How far the stack pointer of an x86-64 function lies below its value at entry."""

from __future__ import annotations

from typing import NamedTuple

from iced_x86 import Instruction, Mnemonic, OpKind, Register

_COMPARES = frozenset({Mnemonic.CMP, Mnemonic.TEST})
POINTERS = frozenset({Register.RSP, Register.RBP})


class Stack(NamedTuple):
    """Bytes by which the stack pointer and rbp lie below the stack pointer at
    entry; None where that is not known."""

    pointer: int | None = 0
    base: int | None = None

    def after(self, instruction: Instruction) -> Stack:
        """Return the stack after an instruction that is no branch and no call."""
        if instruction.is_stack_instruction:
            return self._pushed_or_popped(instruction)
        register = Register.NONE
        if instruction.op_count and instruction.op0_kind == OpKind.REGISTER:
            register = instruction.op0_register
        if register == Register.RBP and instruction.mnemonic not in _COMPARES:
            return Stack(self.pointer, self._target(instruction))
        if register == Register.RSP and instruction.mnemonic not in _COMPARES:
            return Stack(self._target(instruction), self.base)
        return self

    def _pushed_or_popped(self, instruction: Instruction) -> Stack:
        """The stack after PUSH, POP and the like: Intel SDM volume 2."""
        if instruction.mnemonic == Mnemonic.LEAVE:
            return Stack(None if self.base is None else self.base - 8, None)
        if instruction.mnemonic == Mnemonic.ENTER:  # rbp is pushed, and points there
            if self.pointer is None:
                return UNKNOWN
            levels = instruction.immediate(1) % 32 * 8  # frame pointers of functions around it
            return Stack(self.pointer + 8 + levels + instruction.immediate(0), self.pointer + 8)
        if self.pointer is None:
            return self
        return Stack(self.pointer - instruction.stack_pointer_increment, self.base)

    def _target(self, instruction: Instruction) -> int | None:
        """The distance of the register that an instruction writes."""
        mnemonic = instruction.mnemonic
        if mnemonic == Mnemonic.MOV and instruction.op1_kind == OpKind.REGISTER:
            return self._of(instruction.op1_register)
        if mnemonic == Mnemonic.LEA and instruction.memory_index == Register.NONE:
            return _less(
                self._of(instruction.memory_base), _signed(instruction.memory_displacement)
            )
        if instruction.op_count == 2 and instruction.op1_kind not in (
            OpKind.REGISTER,
            OpKind.MEMORY,
        ):
            amount = _signed(instruction.immediate(1))
            if mnemonic == Mnemonic.SUB:
                return _less(self._of(instruction.op0_register), -amount)
            if mnemonic == Mnemonic.ADD:
                return _less(self._of(instruction.op0_register), amount)
        return None

    def _of(self, register: int) -> int | None:
        if register == Register.RSP:
            return self.pointer
        return self.base if register == Register.RBP else None


ENTRY, UNKNOWN = Stack(), Stack(None, None)


def _less(distance: int | None, amount: int) -> int | None:
    return None if distance is None else distance - amount


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
