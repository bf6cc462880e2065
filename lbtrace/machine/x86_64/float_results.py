"""Floats that x86-64 functions return, where integer registers hold them as well.

Unoptimised code of gcc ends with a move from rax to xmm0, so that rax still has
what xmm0 returns.
"""

from __future__ import annotations

from collections.abc import Collection

from iced_x86 import Decoder, FlowControl, Instruction, OpKind

from lbtrace.machine.code import Code, Read
from lbtrace.machine.x86_64.float_spills import COPIES
from lbtrace.machine.x86_64.jump_tables import Tables, name_of
from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.model import Fetch

RESULTS = ("xmm0", "xmm1")

LENGTH = 32
"""Instructions before a return that are looked at."""


def results(code: Code, returns: Collection[int], read: Read) -> dict[str, tuple[Fetch, int]]:
    """See `lbtrace.machine.SitePlanner.results`."""
    tables = Tables(code, read)
    end = code.address + len(code.code)
    jump_targets = set()
    for jump in tables.branches:
        if jump.op0_kind == OpKind.NEAR_BRANCH64 and not jump.is_call_near:
            jump_targets.add(jump.near_branch_target)
    if not returns or not all(code.address <= at < end for at in (*jump_targets, *returns)):
        return {}  # what is elsewhere might lead back
    jumps = [j for j in tables.branches if j.flow_control == FlowControl.INDIRECT_BRANCH]
    lines: list[list[Instruction]] = []
    line: list[Instruction] = []
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.ip in jump_targets:
            line = []
        if instruction.ip in returns:
            lines.append(line)
        line = (
            [*line[-LENGTH:], instruction] if instruction.flow_control == FlowControl.NEXT else []
        )
    found = {}
    for vector in RESULTS:
        sources = {_source(line, vector, jumps, tables) for line in lines}
        source = sources.pop() if len(lines) == len(returns) and len(sources) == 1 else None
        if source is not None:
            register, size = source
            found[f"float in {vector}"] = Fetch(register=register), size
    return found


def _source(
    line: list[Instruction], vector: str, jumps: list[Instruction], tables: Tables
) -> tuple[str, int] | None:
    """The integer register that holds what ``vector`` does after ``line``, and how many bytes of
    it; None where that is not certain."""
    wanted, size = vector, 8
    written: set[str] = set()
    for instruction in reversed(line):
        following = range(instruction.next_ip, instruction.next_ip + 1)
        if not all(tables.never_targets(jump, following) for jump in jumps):
            return None
        writes = tables.written(instruction)
        if wanted in writes:
            size = min(size, COPIES.get(instruction.mnemonic, 0))
            if not size or instruction.op_count != 2 or instruction.op1_kind != OpKind.REGISTER:
                return None
            wanted = name_of(instruction.op1_register)
            if wanted in REGISTERS.values():
                return None if wanted in written else (wanted, size)
        written |= writes
    return None
