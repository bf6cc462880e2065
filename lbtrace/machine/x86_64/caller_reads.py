"""What an x86-64 function certainly reads of its caller's frame.

The code is followed from its first instruction along every direct jump. What only a computed jump
can reach is taken to have the stack of those jumps, if they all have the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import iced_x86
from iced_x86 import (
    Decoder,
    FlowControl,
    Instruction,
    MemorySizeExt,
    Mnemonic,
    OpKind,
    Register,
)

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.registers import RETURN_ADDRESS_SIZE
from lbtrace.machine.x86_64.result_writes import READS
from lbtrace.machine.x86_64.stack_depth import ENTRY, POINTERS, Stack
from lbtrace.machine.x86_64.type_marks import mark_size

_INFO = iced_x86.InstructionInfoFactory()

_GOES_ON = frozenset(
    {
        FlowControl.NEXT,
        FlowControl.CALL,
        FlowControl.INDIRECT_CALL,
        FlowControl.CONDITIONAL_BRANCH,
    }
)
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})

Span: TypeAlias = tuple[int, int]


def caller_reads(code: Code, *, every: bool) -> frozenset[Span] | None:
    """See `lbtrace.machine.Machine.find_caller_reads`."""
    data = mark_size(code.code)
    start = code.address + data
    instructions = {each.ip: each for each in Decoder(64, code.code[data:], ip=start)}
    stacks = _follow(instructions, start)
    if every and not (stacks and code.address + len(code.code) >= code.limit):
        return None
    return frozenset(
        span
        for at, stack in stacks.items()
        if instructions[at].memory_base in POINTERS
        and (span := _span(instructions[at], stack)) is not None
    )


def _follow(instructions: Mapping[int, Instruction], start: int) -> dict[int, Stack]:
    """Return the stack before each instruction that is reached; nothing where ways to one of them
    disagree, as after a call that does not return."""
    found: dict[int, Stack] = {}
    computed: set[Stack] = set()
    ways = [(start, ENTRY)]
    while ways:
        at, stack = ways.pop()
        while at in instructions and at not in found:
            found[at] = stack
            instruction = instructions[at]
            flow, at = instruction.flow_control, instruction.next_ip
            if flow in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
                ways.append((instruction.near_branch_target, stack))
            elif flow == FlowControl.INDIRECT_BRANCH:
                computed.add(stack)
            if flow not in _GOES_ON:
                at = -1
            elif flow == FlowControl.NEXT and _may_move(instruction):
                stack = stack.after(instruction)
        if at in found and _differ(found[at], stack):
            return {}
        if not ways and len(computed) == 1:
            left = instructions.keys() - found.keys()
            ways.extend((at, stack) for at in sorted(left)[:1] for stack in computed)
    return found


def _may_move(instruction: Instruction) -> bool:
    return instruction.is_stack_instruction or instruction.op0_register in POINTERS


def _differ(one: Stack, other: Stack) -> bool:
    pairs = zip(one, other, strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _span(instruction: Instruction, stack: Stack) -> Span | None:
    """Which bytes an instruction certainly reads by the stack pointer or the frame pointer, or to
    which it refers, from the stack pointer at entry, if they are in the caller's frame."""
    below = stack.pointer if instruction.memory_base == Register.RSP else stack.base
    if below is None:
        return None
    displacement = int(instruction.memory_displacement)
    start = (displacement - (1 << 64) if displacement >> 63 else displacement) - below
    indexed = instruction.memory_index != Register.NONE
    if start < RETURN_ADDRESS_SIZE:
        return None
    if instruction.mnemonic == Mnemonic.LEA:
        refers = instruction.op0_register not in POINTERS and not indexed
        return (start, start + 1) if refers else None
    info = _INFO.info(instruction)
    held = [n for n in range(instruction.op_count) if instruction.op_kind(n) == OpKind.MEMORY]
    if not any(info.op_access(n) in READS for n in held):
        return None
    return start, start + (1 if indexed else MemorySizeExt.size(instruction.memory_size))
