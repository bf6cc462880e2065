"""Whether assembly restores the stack pointer that it saved, where nothing says where it begins.

The assembly of codecs and of cryptography (x264's x86inc.asm, qhasm) is mostly stripped, has no
frame descriptions and many computed jumps. It saves the stack pointer, or by how much it moved it,
once at its start, and leaves through several epilogues. So what was saved is looked for backward
from an epilogue, in the order of the addresses, and must be untouched up to there. Assembly that
switches stacks gets the new stack pointer as an argument, or loads it after its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import iced_x86
from iced_x86 import Code, Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

BEFORE = 1 << 15
"""Bytes before an epilogue in which the start of its function is looked for."""

CALLEE = 8192
"""Instructions of the parts that are called, at most."""

FAR = 1 << 16
"""Bytes of one of them, at most."""

_ARGUMENTS = frozenset(
    {
        *(Register.RDI, Register.RSI, Register.RDX),
        *(Register.RCX, Register.R8, Register.R9),
    }
)
"""System V ABI, x86-64, 3.2.3."""

_ENDS = frozenset(
    {FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH}
)
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_FOLLOWED = frozenset({FlowControl.NEXT, FlowControl.RETURN, FlowControl.CALL, *_JUMPS})
_PADDING = frozenset({Mnemonic.NOP, Mnemonic.INT3})
_ALIGNED = 16
_MOVED_ON = frozenset(
    {Mnemonic.ADD, Mnemonic.SUB, Mnemonic.AND, Mnemonic.PUSH, Mnemonic.POP, Mnemonic.CALL}
)
"""What moves the stack pointer on, by its operand or otherwise."""

_INFO = iced_x86.InstructionInfoFactory()


def restores_pointer(code: memoryview, address: int, load: Instruction) -> bool:
    """Return whether ``load`` sets rsp to what a register was saved to, by instructions before it
    in ``code``, which begins at ``address``: nothing between may change either, but for what
    moves rsp on."""
    register = load.op1_register
    if load.mnemonic != Mnemonic.MOV or load.op1_kind != OpKind.REGISTER:
        return False
    name = REGISTERS.get(register)
    saved = max((_last(code, load.ip - address, form) for form in _saves(register)), default=-1)
    if name is None or saved < 0:
        return False
    way = _Way(code, address, saved, load.ip)
    for instruction in way:
        if _sets_pointer(instruction) and instruction.op1_register != register:
            return False
        if way.writes(instruction, name):
            return False
    return way.arrives and not (way.parts and register in _ARGUMENTS)


def restores_room(code: memoryview, address: int, shift: Instruction) -> bool:
    """Return whether ``shift``, an addition to rsp, takes back what was subtracted: qhasm's
    functions subtract a register, and may keep that on the stack."""
    register = shift.op1_register
    if shift.code not in (Code.ADD_RM64_R64, Code.ADD_R64_RM64) or register not in REGISTERS:
        return False
    made = _last(code, shift.ip - address, _makes_room(register))
    if made < 0:
        return False
    way, slot, unchanged = _Way(code, address, made, shift.ip), None, True
    for instruction in way:
        if _sets_pointer(instruction):
            return False
        if unchanged and slot is None and _keeps(instruction, register):
            slot = instruction.memory_displacement
        elif _is_slot(instruction, slot) and _stores(instruction):
            return False
        elif instruction.op0_register == register and instruction.mnemonic == Mnemonic.MOV:
            unchanged = _is_slot(instruction, slot)
        elif way.writes(instruction, REGISTERS[register]):
            unchanged = False
    return way.arrives and unchanged and not (way.parts and register in _ARGUMENTS)


class _Way:
    """The instructions after the one at ``start``, in order, up to the one at ``end``."""

    def __init__(self, code: memoryview, address: int, start: int, end: int) -> None:
        self._code = code
        self._address = address
        self._end = end
        self._decoder = Decoder(64, bytes(code[start : end - address]), ip=address + start)
        self._first = self._decoder.decode()
        self.arrives = False
        self.parts = 0
        """How many functions seem to begin between."""

    def __iter__(self) -> Iterator[Instruction]:
        after, padded, targets = FlowControl.NEXT, False, set[int]()
        last = self._first
        for last in self._decoder:
            if after in _ENDS and last.mnemonic in _PADDING:
                padded = True
                continue
            begins = after in _ENDS and padded and not last.ip % _ALIGNED
            self.parts += begins and last.ip not in targets
            after, padded = last.flow_control, False
            if after in _JUMPS:
                targets.add(last.near_branch_target)
            yield last
        begins = after in _ENDS and padded and not self._end % _ALIGNED
        self.parts += begins and self._end not in targets
        self.arrives = last.next_ip == self._end and not last.is_invalid

    def raw(self, instruction: Instruction) -> bytes:
        at = instruction.ip - self._address
        return bytes(self._code[at : at + instruction.len])

    def writes(self, instruction: Instruction, name: str) -> bool:
        """Return whether an instruction, or what it calls, writes a register; where that is not
        followed it may."""
        if name in _written(self.raw(instruction)):
            return True
        return instruction.flow_control in _CALLS and not self._preserves(instruction, name)

    def _preserves(self, call: Instruction, name: str) -> bool:
        ahead, seen = [call], set[int]()
        while ahead:
            target = ahead.pop()
            at = target.near_branch_target - self._address
            if target.op0_kind != OpKind.NEAR_BRANCH64 or not 0 <= at < len(self._code):
                return False
            if target.near_branch_target in seen:
                continue
            part = bytes(self._code[at : at + FAR])
            for instruction in Decoder(64, part, ip=target.near_branch_target):
                flow = instruction.flow_control
                seen.add(instruction.ip)
                if instruction.is_invalid or flow not in _FOLLOWED or len(seen) > CALLEE:
                    return False
                if name in _written(self.raw(instruction)):
                    return False
                if flow in _JUMPS or flow in _CALLS:
                    ahead.append(instruction)
                if flow in _ENDS:
                    break
        return True


def _last(code: memoryview, before: int, form: bytes) -> int:
    """Where ``form`` stands last before a place in ``code``; -1 where it does not."""
    begin = max(before - BEFORE, 0)
    found = bytes(code[begin:before]).rfind(form)
    return begin + found if found >= 0 else -1


def _saves(register: int) -> tuple[bytes, ...]:
    """``mov %rsp, register``, in both encodings: Intel SDM volume 2, MOV."""
    number = register - Register.RAX
    high, low = number >> 3, number & 7
    return (
        bytes((0x48 | high, 0x89, 0xE0 | low)),
        bytes((0x48 | high << 2, 0x8B, 0xC4 | low << 3)),
    )


def _makes_room(register: int) -> bytes:
    """``sub register, %rsp``."""
    number = register - Register.RAX
    return bytes((0x48 | number >> 3 << 2, 0x29, 0xC4 | (number & 7) << 3))


def _keeps(instruction: Instruction, register: int) -> bool:
    """Whether an instruction stores a register on the stack."""
    stores = instruction.mnemonic == Mnemonic.MOV and instruction.op0_kind == OpKind.MEMORY
    slot = _is_slot(instruction, instruction.memory_displacement)
    return stores and slot and instruction.op1_register == register


def _is_slot(instruction: Instruction, offset: int | None) -> bool:
    """Whether an instruction has a slot of the stack as its memory."""
    plain = instruction.memory_base == Register.RSP and instruction.memory_index == Register.NONE
    return bool(plain and instruction.memory_displacement == offset)


def _sets_pointer(instruction: Instruction) -> bool:
    """Whether rsp is set anew."""
    if instruction.mnemonic in (Mnemonic.LEAVE, Mnemonic.ENTER):
        return True
    if instruction.op0_register != Register.RSP:
        return instruction.mnemonic == Mnemonic.XCHG and instruction.op1_register == Register.RSP
    moves = instruction.mnemonic == Mnemonic.LEA and instruction.memory_base == Register.RSP
    return not moves and instruction.mnemonic not in _MOVED_ON


def _stores(instruction: Instruction) -> bool:
    return bool(instruction.op0_kind == OpKind.MEMORY and instruction.mnemonic != Mnemonic.CMP)


@lru_cache(maxsize=20_000)
def _written(raw: bytes) -> frozenset[str]:
    """The registers that an instruction writes, or parts of which."""
    instruction = Decoder(64, raw).decode()
    return frozenset(
        REGISTERS.get(iced_x86.RegisterExt.full_register(used.register), "")
        for used in _INFO.info(instruction).used_registers()
        if used.access in WRITES
    )
