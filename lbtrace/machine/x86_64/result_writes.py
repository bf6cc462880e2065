"""What an x86-64 function leaves in registers when it returns."""

from __future__ import annotations

import iced_x86
from iced_x86 import Decoder, FlowControl, Mnemonic, OpAccess, OpKind, RegisterExt

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

WHOLE = 8

_INFO = iced_x86.InstructionInfoFactory()

READS = frozenset(
    {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)

SIDE_EFFECTS = frozenset(
    {Mnemonic.DIV, Mnemonic.IDIV, Mnemonic.MUL, Mnemonic.IMUL, Mnemonic.XCHG, Mnemonic.POP}
)
"""These write registers for which nobody need have asked, or restore them."""


HALF = 4
"""Bytes of a register that are written so that the rest becomes 0."""


def result_widths(code: Code) -> dict[str, int]:
    """See `lbtrace.machine.Machine.find_result_widths`."""
    found: dict[str, int] = {}
    last: dict[str, int] = {}
    before = 0  # in what comes first nothing is there that callers could want
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control == FlowControl.RETURN:
            for name in {*found, *last}:
                found[name] = max(found.get(name, 0), last.get(name, before))
        if instruction.flow_control != FlowControl.NEXT:
            before = WHOLE
            last.clear()
            continue
        own = instruction.op0_register  # none is 0
        for used in _INFO.info(instruction).used_registers():
            register = RegisterExt.full_register(used.register)
            if used.access in WRITES:
                # Of the operand that is named iced-x86 has what becomes 0 as well.
                named = RegisterExt.full_register(own) == register
                name = REGISTERS.get(register, "")
                size = RegisterExt.size(own if named else used.register)
                last[name] = max(size, 0 if size >= HALF else last.get(name, before))
    return found


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
        if instruction.mnemonic in SIDE_EFFECTS or instruction.op0_kind != OpKind.REGISTER:
            continue
        own = REGISTERS.get(RegisterExt.full_register(instruction.op0_register), "")
        if own in written:
            last.add(own)
    return frozenset(found)
