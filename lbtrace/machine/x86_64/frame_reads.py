"""Whether an x86-64 function reads a part of its frame."""

from __future__ import annotations

from collections.abc import Collection

import iced_x86
from iced_x86 import (
    Decoder,
    Instruction,
    MemorySizeExt,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
)

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES
from lbtrace.machine.x86_64.result_writes import READS

_INFO = iced_x86.InstructionInfoFactory()


def reads_frame(code: Code, base: str, start: int, end: int) -> bool:
    """See `lbtrace.machine.Machine.reads_frame`."""
    pointers: set[str] = set()
    for instruction in Decoder(64, code.code, ip=code.address):
        info = _INFO.info(instruction)
        used = [(_name(each.register), each.access) for each in info.used_registers()]
        read = {name for name, access in used if access in READS}
        through = pointers & {_name(instruction.memory_base)}
        if through and _only_writes(instruction, info) and _reads_once(instruction):
            read -= through
        if read & pointers:
            return True
        pointers -= {name for name, access in used if access in WRITES}
        if _name(instruction.memory_base) != base or not _has_memory(instruction):
            continue
        displacement = _displacement(instruction)
        if instruction.mnemonic == Mnemonic.LEA and instruction.memory_index == Register.NONE:
            if start <= displacement < end:
                pointers.add(_name(instruction.op0_register))
        elif _may_touch(instruction, start, end) and not _only_writes(instruction, info):
            return True
    return False


def reads_all(code: bytes, registers: Collection[str]) -> bool:
    """See `lbtrace.machine.Machine.reads_all`."""
    left = set(registers)
    for instruction in Decoder(64, code):
        for used in _INFO.info(instruction).used_registers():
            if used.access in READS:
                left -= {_name(used.register), _vector(used.register)}
    return not left


def _vector(register: int) -> str:
    is_vector = RegisterExt.is_vector_register(register)  # type: ignore[arg-type]
    return f"xmm{RegisterExt.number(register)}" if is_vector else ""  # type: ignore[arg-type]


def _may_touch(instruction: Instruction, start: int, end: int) -> bool:
    displacement = _displacement(instruction)
    if instruction.memory_index != Register.NONE:
        return displacement < end  # it may lead anywhere above
    size = MemorySizeExt.size(instruction.memory_size)
    return displacement < end and start < displacement + size


def _only_writes(instruction: Instruction, info: iced_x86.InstructionInfo) -> bool:
    """Whether an instruction writes what it has in memory, and does not read it."""
    accesses = [used.access for used in info.used_memory()]
    return bool(accesses) and all(access == OpAccess.WRITE for access in accesses)


def _reads_once(instruction: Instruction) -> bool:
    """Whether an instruction does not use the register by which it reaches memory otherwise."""
    base = _name(instruction.memory_base)
    others = {instruction.memory_index} | {
        instruction.op_register(n)
        for n in range(instruction.op_count)
        if instruction.op_kind(n) == OpKind.REGISTER
    }
    return base not in map(_name, others)


def _has_memory(instruction: Instruction) -> bool:
    return any(instruction.op_kind(n) == OpKind.MEMORY for n in range(instruction.op_count))


def _displacement(instruction: Instruction) -> int:
    displacement = int(instruction.memory_displacement)
    return displacement - (1 << 64) if displacement >> 63 else displacement


def _name(register: int) -> str:
    return REGISTERS.get(RegisterExt.full_register(register), "")  # type: ignore[arg-type]
