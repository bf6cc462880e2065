"""What an x86-64 function leaves in registers when it returns."""

from __future__ import annotations

import iced_x86
from iced_x86 import Decoder, FlowControl, Mnemonic, OpAccess, OpKind, RegisterExt

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

_INFO = iced_x86.InstructionInfoFactory()

READS = frozenset(
    {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)

BESIDE = frozenset(
    {Mnemonic.DIV, Mnemonic.IDIV, Mnemonic.MUL, Mnemonic.IMUL, Mnemonic.XCHG, Mnemonic.POP}
)
"""These write registers for which nobody need have asked, or restore them."""


def result_writes(code: Code) -> frozenset[str]:
    """See `lbtrace.machine.Machine.find_result_writes`."""
    found: set[str] = set()
    last: set[str] = set()
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != FlowControl.NEXT:
            if instruction.flow_control == FlowControl.RETURN:
                found |= last
            last.clear()
            continue
        written: set[str] = set()
        for used in _INFO.info(instruction).used_registers():
            name = REGISTERS.get(RegisterExt.full_register(used.register), "")
            if used.access in READS:
                last.discard(name)
            if used.access in WRITES:
                written.add(name)
        last -= written
        if instruction.mnemonic in BESIDE or instruction.op0_kind != OpKind.REGISTER:
            continue
        own = REGISTERS.get(RegisterExt.full_register(instruction.op0_register), "")
        if own in written:
            last.add(own)
    return frozenset(found)
