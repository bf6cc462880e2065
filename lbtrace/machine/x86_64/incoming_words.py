"""Whether x86-64 code loads what its caller passes on the stack."""

from __future__ import annotations

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.x86_64.stack_depth import ENTRY, UNKNOWN, Stack

FIRST = 8
"""Bytes from the stack pointer at entry to the first argument on the stack: the return address is
before it (System V ABI, x86-64, 3.2.3)."""

_FRAME = frozenset({Register.RSP, Register.RBP})
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_GOES_ON = frozenset({FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH, *_CALLS})


def loads_incoming(code: bytes, address: int, at: int) -> bool:
    """Return whether the instruction at ``at`` loads by rsp or rbp what lies above the return
    address, for all that the function's ``code`` shows, read from ``address`` on in order."""
    stack, jumped, ended = ENTRY, dict[int, Stack](), False
    for instruction in Decoder(64, code, ip=address):
        if ended or instruction.ip in jumped:
            there = jumped.get(instruction.ip, UNKNOWN)
            stack = there if ended or there == stack else UNKNOWN
        if instruction.ip >= at:
            found = stack.pointer if instruction.memory_base == Register.RSP else stack.base
            offset = instruction.memory_displacement
            offset -= offset >> 63 << 64
            return instruction.ip == at and found is not None and offset - found >= FIRST
        flow = instruction.flow_control
        if flow == FlowControl.NEXT:
            stack = stack.after(instruction)
        elif flow in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
            jumped.setdefault(instruction.near_branch_target, stack)
        ended = flow not in _GOES_ON
    return False


def is_frame_load(instruction: Instruction) -> bool:
    """Return whether an instruction loads a word of memory by rsp or rbp."""
    loads = instruction.mnemonic == Mnemonic.MOV and instruction.op1_kind == OpKind.MEMORY
    return bool(
        loads and instruction.memory_base in _FRAME and instruction.memory_index == Register.NONE
    )
