"""Which registers an x86-64 function writes before it branches for the first time."""

from __future__ import annotations

import iced_x86
from iced_x86 import Decoder, FlowControl

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES


def first_writes(code: Code) -> frozenset[str]:
    """Return the registers, by their names, that the instructions of ``code`` up to its first call,
    jump or return write, in whole or in part."""
    info, found = iced_x86.InstructionInfoFactory(), set()
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != FlowControl.NEXT:
            break
        for used in info.info(instruction).used_registers():
            if used.access in WRITES:
                found.add(REGISTERS.get(iced_x86.RegisterExt.full_register(used.register), ""))
    return frozenset(found)
