"""What an x86-64 function certainly reads of its caller's frame.

The code is followed from its first instruction along every direct jump. What only a computed jump
can reach is taken to have the stack of those jumps, if they all have the same. Jumps to functions
of the same file, to which the caller's frame is passed on, are followed there, up to calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

from lbtrace.machine.code import Code, Read
from lbtrace.machine.x86_64.operands import WRITES
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
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})

Span: TypeAlias = tuple[int, int]


DEPTH = 4
"""Functions, one jumping to the next, that are followed at most."""

FOLLOWED = 1024
"""Bytes of code that are read of each of these, at most."""

FUNCTIONS = 16
"""Functions that are followed, at most."""

FAR = 1 << 31
"""What stands for the end of what an index or a pointer may lead to."""


class _Piece:
    """Code whose stack is the caller's at ``start``. It is followed past calls, along computed
    jumps, and along those that may lead to another function, if it is the ``whole`` of one."""

    def __init__(self, code: bytes, start: int, *, whole: bool) -> None:
        data = mark_size(code)
        start += data
        self._instructions = {each.ip: each for each in Decoder(64, code[data:], ip=start)}
        self._stacks = _follow(self._instructions, start, whole=whole)

    @property
    def is_followed(self) -> bool:
        """Whether it is known what the stack is where it goes on."""
        return bool(self._stacks)

    def find_spans(self, *, writes: bool = False, refers: bool = True) -> frozenset[Span]:
        """Return what it reads, or ``writes``, of the caller's frame; or what it ``refers`` to."""
        return frozenset(
            span
            for at, stack in self._stacks.items()
            if self._instructions[at].memory_base in POINTERS
            and (refers or self._instructions[at].mnemonic != Mnemonic.LEA)
            and (span := _span(self._instructions[at], stack, writes=writes)) is not None
        )

    def find_jumps(self, start: int = 0, end: int = 0) -> Iterable[int]:
        """Return where it jumps out of what is from ``start`` to ``end``, passing on the stack."""
        targets = {
            self._instructions[at].near_branch_target
            for at, stack in self._stacks.items()
            if self._instructions[at].flow_control in _JUMPS
            and self._instructions[at].op0_kind == OpKind.NEAR_BRANCH64
            and stack.pointer == 0
        }
        return sorted(target for target in targets if not start <= target < end)


def caller_reads(code: Code, read: Read, *, every: bool) -> frozenset[Span] | None:
    """See `lbtrace.machine.Machine.find_caller_reads`."""
    own = _Piece(code.code, code.address, whole=True)
    if every and not (own.is_followed and code.address + len(code.code) >= code.limit):
        return None
    found = own.find_spans()
    jumps = own.find_jumps(code.address, code.limit)
    if not jumps:
        return found
    written = own.find_spans(writes=True)
    seen: set[int] = set()
    for _ in range(DEPTH):
        further: set[int] = set()
        for at in jumps:
            if at in seen or len(seen) == FUNCTIONS:
                continue
            seen.add(at)
            piece = _Piece(read(at, FOLLOWED), at, whole=False)
            written |= piece.find_spans(writes=True, refers=False)
            found |= _unwritten(piece.find_spans(refers=False), written)
            written |= piece.find_spans(writes=True)
            further.update(piece.find_jumps())
        jumps = sorted(further)
    return found


def _unwritten(spans: Iterable[Span], written: Iterable[Span]) -> frozenset[Span]:
    """Those of the ``spans`` in which nothing is ``written``."""
    return frozenset(
        (start, end)
        for start, end in spans
        if not any(first < end and start < last for first, last in written)
    )


def _follow(
    instructions: Mapping[int, Instruction], start: int, *, whole: bool
) -> dict[int, Stack]:
    """Return the stack before each instruction that is reached; nothing where ways to one of them
    disagree, as after a call that does not return."""
    found: dict[int, Stack] = {}
    computed: set[Stack] = set()
    ways = [(start, ENTRY)]
    goes_on = _GOES_ON if whole else _GOES_ON - _CALLS
    while ways:
        at, stack = ways.pop()
        while at in instructions and at not in found:
            found[at] = stack
            instruction = instructions[at]
            flow, at = instruction.flow_control, instruction.next_ip
            if flow in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
                if whole or stack.pointer:
                    ways.append((instruction.near_branch_target, stack))
            elif flow == FlowControl.INDIRECT_BRANCH:
                computed.add(stack)
            if flow not in goes_on:
                at = -1
            elif flow == FlowControl.NEXT and _may_move(instruction):
                stack = stack.after(instruction)
        if at in found and _differ(found[at], stack):
            return {}
        if whole and not ways and len(computed) == 1:
            left = instructions.keys() - found.keys()
            ways.extend((at, stack) for at in sorted(left)[:1] for stack in computed)
    return found


def _may_move(instruction: Instruction) -> bool:
    return instruction.is_stack_instruction or instruction.op0_register in POINTERS


def _differ(one: Stack, other: Stack) -> bool:
    pairs = zip(one, other, strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _span(instruction: Instruction, stack: Stack, *, writes: bool) -> Span | None:
    """Which bytes an instruction reads, or ``writes``, by the stack pointer or the frame pointer,
    or to which it refers, from the stack pointer at entry, if they are in the caller's frame: of
    what it reads those that it certainly does, of what it writes all that it may."""
    below = stack.pointer if instruction.memory_base == Register.RSP else stack.base
    if below is None:
        return None
    displacement = int(instruction.memory_displacement)
    start = (displacement - (1 << 64) if displacement >> 63 else displacement) - below
    indexed = instruction.memory_index != Register.NONE
    if start < RETURN_ADDRESS_SIZE:
        return None
    if instruction.mnemonic == Mnemonic.LEA:
        if instruction.op0_register in POINTERS or (indexed and not writes):
            return None
        return start, FAR if writes else start + 1
    info = _INFO.info(instruction)
    held = [n for n in range(instruction.op_count) if instruction.op_kind(n) == OpKind.MEMORY]
    wanted = WRITES if writes else READS
    if not any(info.op_access(n) in wanted for n in held):
        return None
    size = MemorySizeExt.size(instruction.memory_size)
    if indexed:
        size = FAR if writes else 1
    return start, start + size
