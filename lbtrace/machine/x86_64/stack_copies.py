"""What x86-64 code copies its stack pointer to, and whether it reaches its return address by that.

A copy is a register, or a slot of the stack, that holds the stack pointer or an address at a known
distance from it. What an instruction does with one is followed in the order of the code; where ways
meet, a register is a copy that is the same by all those that were met before.
"""

from __future__ import annotations

from collections.abc import Iterator

from iced_x86 import Instruction, MemorySizeExt, Mnemonic, OpKind, Register

from lbtrace.machine.code import Access, Handed
from lbtrace.machine.x86_64.known_numbers import READ_ONLY, KnownNumbers, signed
from lbtrace.machine.x86_64.operands import CONDITIONAL_MOVES
from lbtrace.machine.x86_64.stack_depth import Stack

RETURN_ADDRESS = 8
"""Bytes of it."""

_CALLERS_FRAME = 1 << 40
"""What slots hold in which the frame pointer of the caller is saved, rather than a depth."""

_SOMEWHERE = 1 << 44
"""About the depth of what is on the stack, where that is aligned: farther than anything known."""
_KNOWN = 1 << 32
_SAVED_STATE = 1 << 14
"""More than any instruction saves: Intel SDM volume 1, 13.4."""

_PARAMETER = 1 << 34
"""Apart from each other, the addresses at known distances from what parameters point to are as
far: as if from depths of their own."""

_FRAME = frozenset({Register.RSP, Register.RBP})
_PARAMETERS = (Register.RDI, Register.RSI, Register.RDX, Register.RCX)
_PASSED_ON = (*_PARAMETERS, Register.R8, Register.R9)
_CHANGED = (*_PASSED_ON, Register.R10, Register.R11, Register.RAX)
_RESULTS = (Register.RAX, Register.RDX)
_ARITHMETIC = frozenset({Mnemonic.ADD, Mnemonic.SUB, Mnemonic.AND})
_SUMS = frozenset({Mnemonic.ADD, Mnemonic.SUB})
_COPY = frozenset({Mnemonic.MOV}) | CONDITIONAL_MOVES
_MULTIPLY = frozenset({Mnemonic.MUL, Mnemonic.DIV, Mnemonic.IDIV})
_ACCESS_NOTHING = frozenset({Mnemonic.LEA, Mnemonic.NOP})
_FROM_RSI = frozenset({OpKind.MEMORY_SEG_RSI, OpKind.MEMORY_SEG_ESI})
_STRINGS = frozenset({OpKind.MEMORY_ESRDI, OpKind.MEMORY_ESEDI}) | _FROM_RSI

_Slot = tuple[int, int]
"""A slot of the stack: by its depth and 0, or where that is not known by its offset from a
register, and which."""


class StackCopies:
    """The copies of the stack pointer at an instruction, as depths: bytes by which they lie below
    the stack pointer at entry."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self._slots: dict[_Slot, int] = {}
        self.numbers = KnownNumbers()

    def meet(self, others: dict[int, int], *, never_returned: bool) -> None:
        """Keep the copies that the jumps to the next instruction have as well; theirs alone where a
        call stands before it, which may never return."""
        self.held = dict(others) if never_returned else common(self.held, others)
        self.numbers.clear()

    def begin(self) -> None:
        """Follow what parameters point to as well, from the beginning of a function."""
        self.held = {each: (n + 1) * _PARAMETER for n, each in enumerate(_PASSED_ON)}

    def handed(self, target: int) -> Iterator[Handed]:
        """Yield what parameters hold where code leads to ``target``."""
        for number, register in enumerate(_PASSED_ON):
            depth = self.held.get(register)
            if depth is not None and depth < _CALLERS_FRAME:
                origin = _origin(depth)
                distance = origin * _PARAMETER - depth if origin else depth
                yield Handed(target, number + 1, origin, distance)

    def access(self, instruction: Instruction, stack: Stack) -> Access | None:
        """Return what an instruction accesses by a parameter, at a distance that is known."""
        if instruction.mnemonic in _ACCESS_NOTHING or instruction.memory_base == Register.NONE:
            return None
        depth = self._address(instruction, stack)
        origin = 0 if depth is None else _origin(depth)
        if depth is None or not origin:
            return None
        size = MemorySizeExt.size(instruction.memory_size) or _SAVED_STATE
        return Access(origin, origin * _PARAMETER - depth, size)

    def of(self, register: int, stack: Stack) -> int | None:
        """Return the depth of what a register holds; None where it is no copy."""
        if register == Register.RSP:
            return stack.pointer
        return stack.base if register == Register.RBP else self.held.get(register)

    def reads(self, instruction: Instruction, stack: Stack, depth: int) -> bool:
        """Return whether an instruction accesses any of the 8 bytes at a depth."""
        if instruction.mnemonic in _ACCESS_NOTHING:
            return False
        if any(kind in _STRINGS for kind in map(instruction.op_kind, range(instruction.op_count))):
            pointers = (Register.RSI, Register.RDI)
            return any(_covers(self.held.get(each), 1, depth) for each in pointers)
        size = MemorySizeExt.size(instruction.memory_size) or 1
        return _covers(self._address(instruction, stack), size, depth)

    def is_passed(self) -> bool:
        """Return whether a parameter register holds the address of the return address."""
        return any(_covers(self.held.get(each), 1, 0) for each in _PARAMETERS)

    def is_put_away(self, instruction: Instruction, stack: Stack) -> bool:
        """Return whether an instruction stores the address of the return address elsewhere than
        on the stack."""
        if instruction.op_count != 2 or instruction.op0_kind != OpKind.MEMORY:
            return False
        writes = instruction.mnemonic not in READ_ONLY
        stored = writes and instruction.op1_kind == OpKind.REGISTER
        if not stored or not _covers(self.of(instruction.op1_register, stack), 1, 0):
            return False
        base = instruction.memory_base
        depth = self.of(base, stack)
        return base not in _FRAME and (depth is None or bool(_origin(depth)))

    def follow(self, instruction: Instruction, stack: Stack, callers: bool) -> bool:
        """Follow an instruction that is no branch, from the stack before it; return whether it
        takes the frame pointer of the caller. ``callers`` says that rbp still holds it."""
        mnemonic = instruction.mnemonic
        if mnemonic == Mnemonic.PUSH:
            self._push(instruction, stack, callers)
        elif mnemonic == Mnemonic.POP:
            return self._pop(instruction, stack)
        elif mnemonic == Mnemonic.XCHG:
            return self._exchange(instruction, stack, callers)
        elif mnemonic in _MULTIPLY or (mnemonic == Mnemonic.IMUL and instruction.op_count == 1):
            self.called()
        elif instruction.op_count and mnemonic not in READ_ONLY:
            self._write(instruction, stack)
        return False

    def called(self) -> None:
        """Forget what a call changes: its results are no copies."""
        self.numbers.clear()
        for register in _RESULTS:
            self.held.pop(register, None)
        for register in _CHANGED:
            if _origin(self.held.get(register, 0)):
                del self.held[register]

    def restored(self, instruction: Instruction, stack: Stack) -> int | None:
        """Return the depth of what an instruction sets rsp or rbp to; None where it is no copy."""
        depth = None
        if instruction.mnemonic == Mnemonic.MOV and instruction.op1_kind == OpKind.REGISTER:
            depth = self.of(instruction.op1_register, stack)
        elif instruction.mnemonic == Mnemonic.LEA and instruction.memory_index == Register.NONE:
            depth = self._address(instruction, stack)
        elif instruction.mnemonic in _SUMS and instruction.op1_kind == OpKind.REGISTER:
            depth = self._sum(instruction, self.of(instruction.op0_register, stack), stack)
        return depth if depth is not None and depth < _KNOWN else None

    def _address(self, instruction: Instruction, stack: Stack) -> int | None:
        """The depth of the memory of an instruction, at index 0 if it is indexed by what is not
        known."""
        if instruction.has_segment_prefix and instruction.segment_prefix >= Register.FS:
            return None
        base, index = instruction.memory_base, instruction.memory_index
        depth, scale = self.of(base, stack), instruction.memory_index_scale
        if depth is None and scale == 1:
            base, index = index, base
            depth = self.of(base, stack)
        if depth is None:
            return None
        indexed = self.numbers.get(index, 0) * scale
        return depth - signed(instruction.memory_displacement) - indexed

    def _slot(self, instruction: Instruction, stack: Stack) -> _Slot:
        address = self._address(instruction, stack)
        if address is not None:
            return address, 0
        return signed(instruction.memory_displacement), instruction.memory_base

    def _store(self, slot: _Slot, depth: int | None) -> None:
        if depth is None:
            self._slots.pop(slot, None)
        else:
            self._slots[slot] = depth

    def _value(self, instruction: Instruction, number: int, stack: Stack) -> int | None:
        """The depth of an operand; None where it is no copy."""
        kind = instruction.op_kind(number)
        if kind == OpKind.REGISTER:
            register = instruction.op_register(number)
            aligned = register == Register.RSP and stack.pointer is None
            return _SOMEWHERE if aligned else self.of(register, stack)
        if kind != OpKind.MEMORY or instruction.memory_base not in _FRAME:
            return None
        return self._slots.get(self._slot(instruction, stack))

    def _set(self, register: int, depth: int | None) -> None:
        if depth is None or depth == _CALLERS_FRAME:
            self.held.pop(register, None)
        elif register not in _FRAME:
            self.held[register] = depth

    def _push(self, instruction: Instruction, stack: Stack, callers: bool) -> None:
        if stack.pointer is None:
            return
        saves = instruction.op0_kind == OpKind.REGISTER and (
            callers and instruction.op0_register == Register.RBP
        )
        value = _CALLERS_FRAME if saves else self._value(instruction, 0, stack)
        self._store((stack.pointer + 8, 0), value)

    def _pop(self, instruction: Instruction, stack: Stack) -> bool:
        value = None if stack.pointer is None else self._slots.get((stack.pointer, 0))
        if instruction.op0_kind != OpKind.REGISTER:
            return value == _CALLERS_FRAME
        register = _whole(instruction.op0_register)  # none: of a segment
        self._set(register, value)
        return value == _CALLERS_FRAME and register not in (Register.RBP, Register.NONE)

    def _exchange(self, instruction: Instruction, stack: Stack, callers: bool) -> bool:
        first, second = (self._value(instruction, number, stack) for number in range(2))
        if instruction.op0_kind == OpKind.REGISTER:
            self._set(_whole(instruction.op0_register), second)
        elif instruction.memory_index == Register.NONE:
            self._store(self._slot(instruction, stack), second)
        self._set(_whole(instruction.op1_register), first)
        return callers and Register.RBP in (instruction.op0_register, instruction.op1_register)

    def _write(self, instruction: Instruction, stack: Stack) -> None:
        """Follow an instruction that writes its first operand."""
        if instruction.op0_kind == OpKind.MEMORY:
            moves = instruction.mnemonic == Mnemonic.MOV
            if moves and instruction.memory_index == Register.NONE:
                self._store(self._slot(instruction, stack), self._value(instruction, 1, stack))
            return
        register = _whole(instruction.op0_register)
        if register != Register.NONE:
            self._set(register, self._written(instruction, stack))

    def _written(self, instruction: Instruction, stack: Stack) -> int | None:
        """The depth of what an instruction leaves in its first register."""
        mnemonic, register = instruction.mnemonic, instruction.op0_register
        if register != _whole(register):
            return None  # 32 bits of it are no address of the stack
        before = self.held.get(register)
        if mnemonic in _COPY:
            value = self._value(instruction, 1, stack)
            return before if value is None and mnemonic != Mnemonic.MOV else value
        if mnemonic == Mnemonic.LEA:
            index, numbers = instruction.memory_index, self.numbers
            known = index in numbers or instruction.memory_base in numbers
            if index != Register.NONE and not known:
                return None
            aligned = instruction.memory_base == Register.RSP and stack.pointer is None
            return _SOMEWHERE if aligned else self._address(instruction, stack)
        if mnemonic in _SUMS and instruction.op1_kind == OpKind.REGISTER:
            return self._sum(instruction, before, stack)
        return None if before is None else _computed(instruction, before)

    def _sum(self, instruction: Instruction, before: int | None, stack: Stack) -> int | None:
        """The depth of the sum or difference of a copy and a number, both in registers."""
        added = instruction.mnemonic == Mnemonic.ADD
        number = self.numbers.get(instruction.op1_register)
        if before is not None:
            return None if number is None else before - (number if added else -number)
        number = self.numbers.get(instruction.op0_register)
        depth = self.of(instruction.op1_register, stack)
        return depth - number if added and number is not None and depth is not None else None


def strays(instruction: Instruction) -> int:
    """Return 2 if an instruction uses the stack pointer otherwise than at a distance from it, or
    else 1 if it moves it, which changes distances."""
    first = instruction.op0_register
    if instruction.is_stack_instruction:
        return 2 if first == Register.RSP else 1
    indexed = instruction.memory_base == Register.RSP and instruction.memory_index
    takes = instruction.mnemonic in (Mnemonic.MOV, Mnemonic.XCHG)
    if indexed or (takes and instruction.op1_register == Register.RSP):
        return 2
    return int(first == Register.RSP)


def _computed(instruction: Instruction, before: int) -> int | None:
    """The depth of what is computed of a copy and a number."""
    mnemonic = instruction.mnemonic
    if mnemonic in (Mnemonic.INC, Mnemonic.DEC):
        return before - (1 if mnemonic == Mnemonic.INC else -1)
    if mnemonic not in _ARITHMETIC or instruction.op1_kind in (OpKind.REGISTER, OpKind.MEMORY):
        return None
    amount = signed(instruction.immediate(1))
    if mnemonic == Mnemonic.AND:  # the return address is aligned
        return before if -RETURN_ADDRESS <= amount < 0 and before % 8 == 0 else None
    return before - (amount if mnemonic == Mnemonic.ADD else -amount)


def _origin(depth: int) -> int:
    """The parameter from which an address is counted; 0 of one on the stack."""
    if depth < _PARAMETER // 2 or depth >= _CALLERS_FRAME:
        return 0
    return (depth + _PARAMETER // 2) // _PARAMETER


def common(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """Return the copies that are the same in both."""
    return {register: depth for register, depth in one.items() if other.get(register) == depth}


def is_realigned(following: list[Instruction], register: int) -> bool:
    """Return whether code, after it pushed what ``register`` leads to, makes a frame above that:
    gcc copies the return address, which it never uses, to a stack that it aligned."""
    for number, instruction in enumerate(following):
        if instruction.mnemonic == Mnemonic.PUSH:
            pushed = instruction.op0_register == Register.RBP
            return pushed and _makes_frame(following[number + 1 :])
        if register in _FRAME or not _passes(instruction):
            return False
    return False


def _makes_frame(following: list[Instruction]) -> bool:
    for instruction in following:
        if instruction.mnemonic == Mnemonic.MOV and instruction.op0_register == Register.RBP:
            return bool(instruction.op1_register == Register.RSP)
        if not _passes(instruction):
            return False
    return False


def _passes(instruction: Instruction) -> bool:
    """Whether an instruction does nothing to the stack."""
    pointers = (instruction.op0_register, instruction.memory_base)
    return not (instruction.is_stack_instruction or _FRAME.intersection(pointers))


def _covers(address: int | None, size: int, depth: int) -> bool:
    """Whether ``size`` bytes of memory at a depth hold any of the 8 bytes at another."""
    return address is not None and address - size < depth < address + RETURN_ADDRESS


def _whole(register: int) -> int:
    """The 64-bit register of which a register of 32 or 64 bits is the lower half."""
    if Register.EAX <= register <= Register.R15D:
        return register - Register.EAX + Register.RAX
    return register if Register.RAX <= register <= Register.R15 else Register.NONE
