"""Infers undeclared register arguments and results of a Go function from its x86-64 code.

Before it calls ``runtime.morestack`` a function saves the registers that hold
its arguments, all of them, each in its own place, which Go's tables list (``cmd/internal/obj``,
``SpillRegisterArgs``). A function without such a call is small, and its arguments are the registers
that it reads first. Results are the registers that it writes last and does not read afterwards,
because compilers write nothing in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register

from lbtrace.machine.code import Code

SPILL_LIMIT = 40
"""Instructions before the call of morestack."""

STACK_ARGUMENTS = 8
"""Where stack-assigned arguments begin, from the stack pointer at entry on."""

WORD, CLEARING = 8, 4
"""Writing four bytes of a register clears the others."""

LONGEST = 4000
"""Instructions of a function that are looked at."""

_READS = frozenset(
    {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})
_WRITES = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE})
_SIDE_EFFECTS = frozenset({Mnemonic.XCHG, Mnemonic.XADD, Mnemonic.NEG, Mnemonic.CMPXCHG})
"""What changes a register besides what it is there for."""


class GoRegisterReader:
    """Infers a Go function's register arguments and results from its code."""

    def __init__(self) -> None:
        self._info = iced_x86.InstructionInfoFactory()

    def spilled(self, code: Code, block: int) -> dict[int, str]:
        """Return the registers of arguments, by their places among them; ``xmm0!`` is one of
        floats.

        ``block`` is where the call of morestack is prepared.
        """
        into = block - code.address
        found: dict[int, str] = {}
        decoder = Decoder(64, code.code[into:], ip=block)
        for _, instruction in zip(range(SPILL_LIMIT), decoder, strict=False):
            if instruction.flow_control != FlowControl.NEXT:
                break
            saved = _saved(instruction)
            if saved is not None:
                offset, register = saved
                found[offset - STACK_ARGUMENTS] = register
        return found

    def read_first(self, code: Code, registers: Sequence[str]) -> int:
        """Return how many of ``registers``, in order, hold something at entry: those up to the
        last one that is read before it is written on some path through the function."""
        instructions = {i.ip: i for i in self._all(code)}
        wanted = frozenset(registers)
        seen: dict[int, frozenset[str]] = {}
        read: set[str] = set()
        ways = [(code.address, frozenset[str]())]
        while ways:
            address, written = ways.pop()
            while address in instructions:
                before = seen.get(address)
                if before is not None and before <= written:
                    break
                written = written if before is None else written & before
                seen[address] = written
                instruction = instructions[address]
                reads, writes = self._touched(instruction)
                read |= (reads & wanted) - written
                flow = instruction.flow_control
                if flow in (FlowControl.CALL, FlowControl.INDIRECT_CALL):
                    writes = wanted
                written |= writes
                if flow == FlowControl.CONDITIONAL_BRANCH:
                    ways.append((instruction.near_branch_target, written))
                elif flow == FlowControl.UNCONDITIONAL_BRANCH:
                    address = instruction.near_branch_target
                    continue
                elif flow in (FlowControl.RETURN, FlowControl.INDIRECT_BRANCH):
                    break
                address = instruction.next_ip
        return max((n + 1 for n, register in enumerate(registers) if register in read), default=0)

    def written_last(self, code: Code, registers: Sequence[str]) -> tuple[int, ...]:
        """Return the sizes of the results in the first of ``registers``, as far as they are known:
        up to the last one that is written before some return and not read in between."""
        instructions = list(self._all(code))
        flows = [i.flow_control for i in instructions]
        jumps = (i for i, flow in zip(instructions, flows, strict=True) if flow in _JUMPS)
        targets = {i.near_branch_target for i in jumps}
        returns = [
            self._results(instructions, end, targets)
            for end, flow in enumerate(flows)
            if flow == FlowControl.RETURN
        ]
        sizes: list[int] = []
        for register in registers:
            widths = [found.get(register) for found in returns]
            known = [size for size in widths if size]
            if not known and (None in widths or not widths):
                break  # nothing, or what may be the low byte of something
            sizes.append(min(known, default=WORD))
        last = max((n for n, r in enumerate(registers) if any(r in f for f in returns)), default=-1)
        return tuple(sizes) if last < len(sizes) else ()

    def _results(
        self, instructions: list[Instruction], end: int, targets: set[int]
    ) -> dict[str, int]:
        """The registers written for good on the way to the return at ``end``, and how many
        bytes of each; 0 where it could be any number of them."""
        used: set[str] = set()
        results: dict[str, int] = {}
        flags_used = False
        for at in range(end - 1, -1, -1):
            instruction = instructions[at]
            if instruction.flow_control != FlowControl.NEXT:
                break
            reads, writes = self._touched(instruction)
            if (
                instruction.op_count
                and instruction.op0_kind == OpKind.REGISTER
                and instruction.mnemonic not in _SIDE_EFFECTS
                and not (flags_used and instruction.rflags_modified)
                and instructions[at - 1].mnemonic != Mnemonic.CMPXCHG  # whether it did
            ):
                own = _name(instruction.op0_register)
                if own in writes and own not in used:
                    results[own] = _width(instruction)
            used |= reads | writes
            flags_used |= bool(instruction.rflags_read)
            if instruction.ip in targets:
                break
        return results

    def _all(self, code: Code) -> Iterator[Instruction]:
        return islice(Decoder(64, code.code, ip=code.address), LONGEST)

    def _touched(self, instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
        """The registers an instruction reads, and those it surely writes."""
        reads, writes = set(), set()
        for used in self._info.info(instruction).used_registers():
            name = _name(used.register)
            if used.access in _READS:
                reads.add(name)
            if used.access in _WRITES:
                writes.add(name)
        return frozenset(reads), frozenset(writes)


def _width(instruction: Instruction) -> int:
    """Bytes that an instruction writes of a register, all of them where it clears the
    rest; 0 where the instruction does not show how much of it counts."""
    size = iced_x86.RegisterExt.size(instruction.op0_register)
    if size < CLEARING:
        return int(size)
    constant = instruction.op_count == 2 and instruction.op1_kind not in (
        OpKind.REGISTER,
        OpKind.MEMORY,
    )
    cleared = instruction.mnemonic == Mnemonic.XOR
    if (
        instruction.mnemonic == Mnemonic.MOVZX
        or cleared
        or (constant and instruction.mnemonic == Mnemonic.MOV)
    ):
        return 0
    return WORD


def _saved(instruction: Instruction) -> tuple[int, str] | None:
    """Where an instruction saves a register: its distance from the stack pointer."""
    if (
        instruction.op_count < 2
        or instruction.op0_kind != OpKind.MEMORY
        or instruction.op1_kind != OpKind.REGISTER
        or instruction.memory_base != Register.RSP
        or instruction.memory_index != Register.NONE
    ):
        return None
    return int(instruction.memory_displacement), _name(instruction.op1_register)


def _name(register: Any) -> str:
    """``ax`` for all of rax, eax, ax and al; ``xmm0!``."""
    full = iced_x86.RegisterExt.full_register(register)
    return _NAMES.get(full, "")


_NAMES = {
    getattr(Register, "R" + name.upper()): name
    for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", *(f"{n}" for n in range(8, 16)))
}
_NAMES = {full: f"r{name}" if name.isdigit() else name for full, name in _NAMES.items()}
_NAMES |= {
    iced_x86.RegisterExt.full_register(getattr(Register, f"XMM{n}")): f"xmm{n}!" for n in range(16)
}
