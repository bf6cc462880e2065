"""Whether an x86-64 function reads registers as its caller filled them."""

from __future__ import annotations

from collections.abc import Collection

import iced_x86
from iced_x86 import Decoder, FlowControl, OpKind, RegisterExt

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

_INFO = iced_x86.InstructionInfoFactory()

_READS = frozenset({iced_x86.OpAccess.READ, iced_x86.OpAccess.READ_WRITE})


def reads_at_entry(code: Code, registers: Collection[str]) -> bool:
    """See `lbtrace.machine.Machine.reads_at_entry`."""
    left = frozenset(registers)
    seen: dict[int, frozenset[str]] = {}
    decoder = Decoder(64, code.code, ip=code.address)
    ways = [(code.address, left)]  # what is reached, and the registers that nothing has written
    while ways and left:
        at, kept = ways.pop()
        while code.address <= at < code.address + len(code.code):
            kept -= seen.get(at, frozenset())
            if not kept & left:
                break
            seen[at] = seen.get(at, frozenset()) | kept
            decoder.ip, decoder.position = at, at - code.address
            instruction = decoder.decode()
            flow, at = instruction.flow_control, instruction.next_ip
            used = [
                (REGISTERS.get(RegisterExt.full_register(each.register), ""), each.access)
                for each in _INFO.info(instruction).used_registers()
            ]
            left -= kept & {name for name, access in used if access in _READS}
            kept -= {name for name, access in used if access in WRITES}
            direct = instruction.op_count and instruction.op0_kind == OpKind.NEAR_BRANCH64
            if flow == FlowControl.CONDITIONAL_BRANCH:
                ways.append((instruction.near_branch_target, kept))
            elif flow == FlowControl.UNCONDITIONAL_BRANCH and direct:
                at = instruction.near_branch_target
            elif flow != FlowControl.NEXT:
                break  # calls change all registers in which something is passed
    return not left
