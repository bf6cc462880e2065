"""Finds x86-64 functions that never return, by a short look at their code."""

from __future__ import annotations

import iced_x86
from iced_x86 import Decoder, FlowControl, OpKind

from lbtrace.machine.function_code import Around, Body, Extent
from lbtrace.machine.x86_64.control_flow import GOES_ON, JUMPS, TRAPS

LOOKED_AT = 200
"""Instructions that are examined before the answer is no."""

_NEXT, _HLT = FlowControl.NEXT, iced_x86.Code.HLT


def never_returns(body: Body, around: Around) -> bool:  # noqa: PLR0912 - a branch for each kind of end
    """Return whether every path from the beginning of ``body``, and from where it continues after
    exceptions, ends in a call that never returns, in a trap, or in an endless loop; false where
    that takes long to decide."""
    extent = Extent(body.parts, around)
    seen: set[int] = set()
    ahead = [*body.pads, body.parts[0].address]
    while ahead:
        address = ahead.pop()
        part = extent.part(address)
        if part is None:
            return False
        decoder = Decoder(64, part.code, ip=part.address)
        decoder.position, decoder.ip = address - part.address, address
        flow = FlowControl.NEXT
        for i in decoder:
            if i.ip in seen:
                break
            seen.add(i.ip)
            flow = i.flow_control
            if flow == _NEXT and i.code != _HLT and len(seen) <= LOOKED_AT:
                continue
            if flow in JUMPS and i.op0_kind == OpKind.NEAR_BRANCH64:
                ahead.append(i.near_branch_target)
                if flow == FlowControl.UNCONDITIONAL_BRANCH:
                    break
            elif flow == FlowControl.CALL and i.is_call_near:
                if around.ends(i.near_branch_target):
                    break
            elif flow == FlowControl.INDIRECT_CALL and i.is_ip_rel_memory_operand:
                if around.ends(i.memory_displacement, pointer=True):
                    break
            elif flow == FlowControl.EXCEPTION or i.mnemonic in TRAPS:
                break
            elif flow not in GOES_ON or len(seen) > LOOKED_AT:
                return False
        else:
            if flow not in (FlowControl.CALL, FlowControl.INDIRECT_CALL):
                return False
    return True
