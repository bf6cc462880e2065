"""Whether x86-64 code switches stacks by itself, as libraries of fibers do in assembly."""

from __future__ import annotations

from collections.abc import Iterator

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.arch import StackSwitch
from lbtrace.arch.amd64_sites import REGISTERS
from lbtrace.model import Fetch

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

_REX, _MOVE = b"\x48\x49\x4c", b"\x89\x8b\x87"
_OPERANDS = bytes(
    [0xC4, 0xCC, 0xD4, 0xDC, 0xF4, 0xFC]  # from rax, rcx, rdx, rsi, rdi, r8 to r11
    + [mode | rm for mode in (0x20, 0x60, 0xA0, 0xE0) for rm in (0, 1, 2, 3, 6, 7)]
)
"""Bytes of ``mov`` and ``xchg`` that set rsp: Intel SDM volume 2, tables 2-2 and 2-4."""

_CLASSES = bytes(
    1 if b in _REX else 2 if b in _MOVE else 3 if b in _OPERANDS else 0 for b in range(256)
)
_SAVED = frozenset(
    {Register.RBX, Register.RBP, Register.RSP, *range(Register.R12, Register.R15 + 1)}
)
"""Where compilers keep the stack pointer of arrays of variable length."""

_STRAIGHT = frozenset({FlowControl.NEXT})
_LEAVES = frozenset({FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL})


def stack_switches(code: bytes, address: int) -> Iterator[StackSwitch]:
    """Where in ``code`` another stack is taken up.

    There rsp is set from memory or from an argument, and code follows that
    restores registers and leaves.
    """
    classes = code.translate(_CLASSES)
    at = classes.find(b"\1\2\3")
    while at >= 0:
        line = Decoder(64, code[at : at + LOOK_AHEAD * 15], ip=address + at)
        first = line.decode()
        if _takes_up(first) and _leads_away(line):
            yield StackSwitch(address + at, _pointer(first))
        at = classes.find(b"\1\2\3", at + 1)


def _leads_away(line: Decoder) -> bool:
    for _, instruction in zip(range(LOOK_AHEAD), line, strict=False):
        flow = instruction.flow_control
        if flow in _LEAVES:
            return True
        if flow not in _STRAIGHT or instruction.is_invalid or _sets_stack(instruction):
            return False
    return False


def _takes_up(instruction: Instruction) -> bool:
    """Whether an instruction sets rsp to what it finds in memory or in a register that is
    no one's to keep."""
    if instruction.mnemonic == Mnemonic.XCHG:
        return Register.RSP in (instruction.op0_register, instruction.op1_register)
    if instruction.mnemonic != Mnemonic.MOV or instruction.op0_register != Register.RSP:
        return False
    source = instruction.op1_register or instruction.memory_base
    return source not in _SAVED


def _pointer(instruction: Instruction) -> Fetch | None:
    for number in range(2):
        register = instruction.op_register(number)
        held = instruction.op_kind(number) == OpKind.REGISTER and register != Register.RSP
        if held and register in REGISTERS:
            return Fetch(register=REGISTERS[register])
    base = REGISTERS.get(instruction.memory_base)
    if base is None or instruction.memory_index != Register.NONE:
        return None
    offset = instruction.memory_displacement
    return Fetch(register=base, offset=offset - (offset >> 63 << 64), read="integer")


def _sets_stack(instruction: Instruction) -> bool:
    """Whether rsp is set anew, as to leave a function with a frame pointer."""
    return instruction.mnemonic == Mnemonic.LEAVE or (
        instruction.mnemonic in (Mnemonic.MOV, Mnemonic.LEA)
        and instruction.op0_register == Register.RSP
    )
