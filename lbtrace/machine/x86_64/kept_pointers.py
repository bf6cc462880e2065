"""Stack pointers that code keeps, and those that it takes up."""

from __future__ import annotations

from iced_x86 import Instruction, Mnemonic, OpKind, Register
from msgspec.structs import replace

from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Fetch

_POINTS = frozenset({Mnemonic.MOV, Mnemonic.LEA, Mnemonic.XCHG})
"""What sets rsp to an operand as it is."""


def moves_on(instruction: Instruction) -> bool:
    """Whether rsp is moved otherwise than by PUSH, POP and the like."""
    return bool(
        instruction.op0_register == Register.RSP
        and instruction.mnemonic in (Mnemonic.ADD, Mnemonic.SUB, Mnemonic.AND, Mnemonic.LEA)
    )


def sets_stack(instruction: Instruction) -> bool:
    """Whether rsp is set anew, as to leave a function with a frame pointer; not where it is moved
    on, which Boost.Context does by ``lea 64(%rsp), %rsp`` rather than by ``add``."""
    if instruction.mnemonic == Mnemonic.LEA and instruction.memory_base == Register.RSP:
        return False
    return instruction.mnemonic == Mnemonic.LEAVE or (
        instruction.mnemonic in (Mnemonic.MOV, Mnemonic.LEA)
        and instruction.op0_register == Register.RSP
    )


def copies_stack(instruction: Instruction, *, calls: bool) -> bool:
    """Whether an instruction puts rsp, or an address near it, elsewhere; into rbp, too, which
    what it ``calls`` preserves."""
    to, mnemonic = instruction.op0_register, instruction.mnemonic
    kept = to != Register.RSP and (calls or to != Register.RBP)
    if mnemonic == Mnemonic.LEA:
        return kept and instruction.memory_base == Register.RSP
    if mnemonic in (Mnemonic.XCHG, Mnemonic.XADD, Mnemonic.PUSH):
        return Register.RSP in (to, instruction.op1_register)
    taken = mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RSP
    return bool(taken and kept)


def points_to(instruction: Instruction, switch: Instruction) -> bool:
    """Whether an instruction puts an address near rsp where ``switch`` has what it loads by: so
    it does to load what lies there, as an argument on the stack."""
    base = switch.memory_base
    loads = switch.mnemonic == Mnemonic.MOV and base not in (Register.NONE, Register.RSP)
    return bool(loads and instruction.mnemonic == Mnemonic.LEA and instruction.op0_register == base)


def fetch_pointer(instruction: Instruction) -> Fetch | None:
    """What fetches the new stack pointer."""
    if instruction.mnemonic == Mnemonic.LEAVE:
        return Fetch(register=REGISTERS[Register.RBP], offset=8)
    if instruction.mnemonic == Mnemonic.POP:
        return Fetch(register=REGISTERS[Register.RSP], read="integer")
    return _fetch_operand(instruction) if instruction.mnemonic in _POINTS else None


def _fetch_operand(instruction: Instruction) -> Fetch | None:
    for number in range(2):
        register = instruction.op_register(number)
        held = instruction.op_kind(number) == OpKind.REGISTER and register != Register.RSP
        if held and register in REGISTERS:
            return Fetch(register=REGISTERS[register])
    address = _address(instruction)
    if address is None or instruction.mnemonic == Mnemonic.LEA:
        return address
    return replace(address, read="integer")


def _address(instruction: Instruction) -> Fetch | None:
    """What fetches the address of an operand in memory."""
    if instruction.memory_index != Register.NONE or instruction.has_segment_prefix:
        return None
    if instruction.is_ip_rel_memory_operand:
        return Fetch(register="ip", offset=instruction.ip_rel_memory_address - instruction.ip)
    offset = instruction.memory_displacement - (instruction.memory_displacement >> 63 << 64)
    if instruction.memory_base == Register.NONE:
        return Fetch(base="constant", offset=offset)
    base = REGISTERS.get(instruction.memory_base)
    return Fetch(register=base, offset=offset) if base else None
