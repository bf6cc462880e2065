"""Whether x86-64 code switches stacks by itself, as libraries of fibers do in assembly."""

from __future__ import annotations

from collections.abc import Iterator

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import StackSwitch
from lbtrace.machine.code_scan import find_stack_loads
from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Fetch

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

_SAVED = frozenset(
    {Register.RBX, Register.RBP, Register.RSP, *range(Register.R12, Register.R15 + 1)}
)
"""Where compilers keep the stack pointer of arrays of variable length."""

_STRAIGHT = frozenset({FlowControl.NEXT})
_LEAVES = frozenset({FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL})


def stack_switches(code: memoryview, address: int) -> Iterator[StackSwitch]:
    """Yield what in ``code`` looks as if another stack were taken up there.

    There rsp is set from memory or from an argument, and code follows that
    restores registers and leaves. Whether it is code at all is for
    `lbtrace.machine.sites` to decide.
    """
    for at in find_stack_loads(code):
        line = Decoder(64, bytes(code[at : at + LOOK_AHEAD * 15]), ip=address + at)
        first = line.decode()
        if _takes_up(first) and _leads_away(line):
            yield StackSwitch(address + at, _pointer(first))


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
    not preserved by anyone."""
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
    """Whether rsp is set anew, as to leave a function with a frame pointer; not where it is moved
    on, which Boost.Context does by ``lea 64(%rsp), %rsp`` rather than by ``add``."""
    if instruction.mnemonic == Mnemonic.LEA and instruction.memory_base == Register.RSP:
        return False
    return instruction.mnemonic == Mnemonic.LEAVE or (
        instruction.mnemonic in (Mnemonic.MOV, Mnemonic.LEA)
        and instruction.op0_register == Register.RSP
    )
