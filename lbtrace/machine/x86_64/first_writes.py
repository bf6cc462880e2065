"""Which registers an x86-64 function writes, and which before it branches for the first time."""

from __future__ import annotations

from collections.abc import Iterator

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, RegisterExt

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

_INFO = iced_x86.InstructionInfoFactory()


def first_writes(code: Code) -> frozenset[str]:
    """Return the registers, by their names, that the instructions of ``code`` up to its first call,
    jump or return write, in whole or in part."""
    found: set[str] = set()
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != FlowControl.NEXT:
            break
        found.update(_written(instruction))
    return frozenset(found)


def all_writes(code: bytes, address: int) -> frozenset[str]:
    """Return the integer and vector registers that the instructions of ``code`` at ``address``
    write, in whole or in part."""
    return frozenset(name for each in Decoder(64, code, ip=address) for name in _written(each))


def _written(instruction: Instruction) -> Iterator[str]:
    for used in _INFO.info(instruction).used_registers():
        if used.access not in WRITES:
            continue
        if RegisterExt.is_vector_register(used.register):
            yield f"xmm{RegisterExt.number(used.register)}"
        else:
            yield REGISTERS.get(RegisterExt.full_register(used.register), "")
