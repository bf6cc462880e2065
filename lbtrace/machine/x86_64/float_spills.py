"""Tracks where the prologue spills the values that registers held at entry.

BPF cannot read vector registers. Unoptimised code stores its parameters on
the stack, and other code may do so before its first call. The code is
followed from the first instruction in a straight line, with what each
register and each word of the function's own stack is known to hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, Register_

from lbtrace.machine.code import Code, FloatSpills, Read
from lbtrace.machine.x86_64.candidates import Candidate, site_of, why_unsafe
from lbtrace.machine.x86_64.jump_tables import Tables, name_of
from lbtrace.machine.x86_64.kernel_rules import is_long_nop, is_refused
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES
from lbtrace.machine.x86_64.stack_depth import ENTRY
from lbtrace.model import CFA, Fetch

LIMIT = 96
"""Instructions that are followed."""

WORD = 8

RED_ZONE = 128
"""Bytes below the stack pointer that no signal handler overwrites (psABI 3.2.2)."""

BASE, POINTER = 6, 7
"""DWARF's numbers of rbp and rsp (psABI, figure 3.36)."""

REASON = "after the stores of the floats"

VECTORS = frozenset(f"xmm{n}" for n in range(16))

COPIES = {
    getattr(Mnemonic, prefix + name): size
    for size, names in {
        4: ("MOVSS", "MOVD"),
        8: (
            "MOVSD",
            "MOVQ",
            "MOVLPS",
            "MOVLPD",
            "MOVAPS",
            "MOVAPD",
            "MOVUPS",
            "MOVUPD",
            "MOVDQA",
            "MOVDQU",
        ),
    }.items()
    for name in names
    for prefix in ("", "V")
} | {Mnemonic.MOV: WORD}
"""Instructions that copy the lowest bytes of one place to another, and how many at most."""

_HIGH = frozenset({Register.AH, Register.BH, Register.CH, Register.DH})
_ELSEWHERE = frozenset({Register.FS, Register.GS})


def find_spills(code: Code, read: Read, formatter: iced_x86.FastFormatter) -> Iterator[FloatSpills]:
    """See `lbtrace.machine.SitePlanner.spills`."""
    line = ValueTracker()
    limit = min(code.limit, code.address + len(code.code))
    tables: Tables | None = None
    for _, instruction in zip(range(LIMIT), Decoder(64, code.code, ip=code.address), strict=False):
        flow, at = instruction.flow_control, instruction.ip - code.address
        if instruction.is_invalid or instruction.ip >= limit:
            return
        raw = code.code[at : at + instruction.len]
        usable = not is_refused(raw) and not is_long_nop(instruction)
        if line.has_vectors() and usable and _stays(instruction, code):
            tables = tables or Tables(code, read)
            place = Candidate(instruction, raw, line.stack.pointer or 0)
            place.push = False  # one of the body may be in a loop
            if not why_unsafe(code, tables.branches, place, tables.never_targets):
                site = site_of(code, place, formatter, REASON)
                yield FloatSpills(
                    site, line.words(), line.slots(), line.bases(), line.written_once()
                )
        if flow != FlowControl.NEXT or not line.pass_by(instruction):
            return


def _stays(instruction: Instruction, code: Code) -> bool:
    """Whether the function continues there, so that no probe of its exits is placed there."""
    if instruction.op0_kind == OpKind.NEAR_BRANCH64 and not instruction.is_call_near:
        return code.address < instruction.near_branch_target < code.address + len(code.code)
    return instruction.flow_control == FlowControl.NEXT or instruction.is_call_near


class EntryValue(NamedTuple):
    """The ``size`` lowest bytes of what ``register`` held at entry."""

    register: str
    size: int


class ValueTracker:
    """Tracks which values are held where, along a straight line of code."""

    def __init__(self) -> None:
        names = (*REGISTERS.values(), *VECTORS)
        self.stack = ENTRY
        self._registers = {name: EntryValue(name, WORD) for name in names if name != "sp"}
        self._slots: dict[int, EntryValue] = {}
        self._written: Counter[int] = Counter()
        self._info = iced_x86.InstructionInfoFactory()

    def pass_by(self, instruction: Instruction) -> bool:
        """Advance past ``instruction``; false where its effect is unknown, or reaches memory that
        is not the function's own."""
        copied, info = self._copied(instruction), self._info.info(instruction)
        for memory in info.used_memory():
            if memory.access not in WRITES:
                continue
            at = self._own(memory)
            size = iced_x86.MemorySizeExt.size(memory.memory_size)
            if at is None or not size or at + size > 0:
                return False
            self._overwrite(at, size)
            self._written.update(range(at, at + size))
            if copied is not None:
                self._slots[at] = EntryValue(copied.register, min(copied.size, size))
        for used in info.used_registers():
            if used.access in WRITES:
                self._registers.pop(name_of(used.register), None)
        loads = instruction.mnemonic != Mnemonic.PUSH and instruction.op0_kind == OpKind.REGISTER
        target = name_of(instruction.op0_register) if copied is not None and loads else ""
        if copied is not None and target:
            self._registers[target] = copied
        self.stack = self.stack.after(instruction)
        return self.stack.pointer is not None

    def has_vectors(self) -> bool:
        """Return whether what a vector register held can be read."""
        inside = [held for name, held in self._registers.items() if name not in VECTORS]
        return any(held.register in VECTORS for held in (*inside, *self._slots.values()))

    def words(self) -> dict[str, tuple[Fetch, int]]:
        """See `FloatSpills`. A value that is still in its register is read there."""
        found: dict[str, tuple[Fetch, int]] = {}
        lowest = -(self.stack.pointer or 0) - RED_ZONE
        for at, held in self._slots.items():
            if held.size in (4, WORD) and at >= lowest:
                fetch = Fetch(base="stack", offset=at, read="integer", size=held.size)
                _offer(found, held, fetch)
        for name, held in self._registers.items():
            if name not in VECTORS:
                _offer(found, held, Fetch(register=name), best=name == held.register)
        return found

    def slots(self) -> dict[int, str]:
        """See `Stored`."""
        return {at: _register_or_float(held) for at, held in self._slots.items()}

    def written_once(self) -> frozenset[int]:
        """See `Stored`."""
        return frozenset(at for at, times in self._written.items() if times == 1)

    def bases(self) -> dict[int, int]:
        """See `Stored`."""
        distances = {BASE: self.stack.base, POINTER: self.stack.pointer, CFA: -WORD}
        return {number: -below for number, below in distances.items() if below is not None}

    def _overwrite(self, at: int, size: int) -> None:
        for slot, held in list(self._slots.items()):
            if slot < at + size and at < slot + held.size:
                del self._slots[slot]

    def _copied(self, instruction: Instruction) -> EntryValue | None:
        """What ``instruction`` copies, if it does nothing else."""
        kinds = [instruction.op_kind(n) for n in range(instruction.op_count)]
        if instruction.mnemonic == Mnemonic.PUSH and kinds == [OpKind.REGISTER]:
            return self._in_register(instruction.op0_register, WORD)
        size = COPIES.get(instruction.mnemonic, 0)
        if not size or len(kinds) != 2:
            return None
        if kinds[0] == OpKind.REGISTER:
            size = min(size, iced_x86.RegisterExt.size(instruction.op0_register))
            if size < 4:  # the rest of the register stays what it was
                return None
        if kinds[1] == OpKind.REGISTER:
            return self._in_register(instruction.op1_register, size)
        at = self._at(instruction) if kinds == [OpKind.REGISTER, OpKind.MEMORY] else None
        held = None if at is None else self._slots.get(at)
        return held and EntryValue(held.register, min(held.size, size))

    def _in_register(self, register: Register_, size: int) -> EntryValue | None:
        held = None if register in _HIGH else self._registers.get(name_of(register))
        if held is None:
            return None
        return EntryValue(held.register, min(held.size, size, iced_x86.RegisterExt.size(register)))

    def _at(self, instruction: Instruction) -> int | None:
        """Where an operand lies, from the stack pointer at entry; None if not on the stack."""
        if instruction.memory_index != Register.NONE or instruction.segment_prefix in _ELSEWHERE:
            return None
        return self._behind(instruction.memory_base, instruction.memory_displacement)

    def _own(self, memory: iced_x86.UsedMemory) -> int | None:
        if memory.index != Register.NONE or memory.segment in _ELSEWHERE:
            return None
        return self._behind(memory.base, memory.displacement)

    def _behind(self, base: Register_, displacement: int) -> int | None:
        below = {Register.RSP: self.stack.pointer, Register.RBP: self.stack.base}.get(base)
        if below is None:
            return None
        return displacement - (displacement >> 63 << 64) - below


def _offer(
    found: dict[str, tuple[Fetch, int]], held: EntryValue, fetch: Fetch, *, best: bool = False
) -> None:
    known = found.get(_register_or_float(held))
    if known is None or best or held.size > known[1]:
        found[_register_or_float(held)] = fetch, held.size


def _register_or_float(held: EntryValue) -> str:
    return f"float in {held.register}" if held.register in VECTORS else held.register
