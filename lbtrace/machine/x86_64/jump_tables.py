"""Where the jump tables of an x86-64 function's ``switch`` statements lead."""

from __future__ import annotations

from struct import iter_unpack

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, Register_

from lbtrace.machine.code import Code, Read
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

ENTRIES = 4096
"""Entries of a table that are read; reading beyond a shorter one does no harm."""

HISTORY = 8
"""Instructions before a jump through a table that compute its target."""


class Tables:
    """The branches of a function, and the tables that indirect ones take their target from."""

    def __init__(self, code: Code, read: Read) -> None:
        self.branches: list[Instruction] = []
        self._read = read
        self._info = iced_x86.InstructionInfoFactory()
        self._before: dict[int, list[Instruction]] = {}
        line: list[Instruction] = []
        for instruction in Decoder(64, code.code, ip=code.address):
            if instruction.flow_control == FlowControl.NEXT:
                line.append(instruction)
                continue
            self.branches.append(instruction)
            if instruction.flow_control == FlowControl.INDIRECT_BRANCH:
                self._before[instruction.ip] = line[-HISTORY:]
            line = []

    def never_targets(self, jump: Instruction, addresses: range) -> bool:
        """Return whether an indirect ``jump`` goes through a table that leads to none of
        ``addresses``."""
        if jump.op0_kind == OpKind.MEMORY:
            return self._no_word(jump, addresses)
        before = self._before[jump.ip]
        last = self._writer(before, jump.op0_register)
        if last is None:
            return False
        if last.mnemonic == Mnemonic.MOV and last.op1_kind == OpKind.MEMORY:
            return self._no_word(last, addresses)
        if last.mnemonic != Mnemonic.ADD or last.op1_kind != OpKind.REGISTER:
            return False
        earlier = before[: before.index(last)]
        writers = [self._writer(earlier, r) for r in (last.op0_register, last.op1_register)]
        starts = [
            w.memory_displacement
            for w in writers
            if w is not None and w.mnemonic == Mnemonic.LEA and w.is_ip_rel_memory_operand
        ]
        return len(starts) == 1 and self._lacks(starts[0], "<i", addresses, starts[0])

    def _no_word(self, loading: Instruction, addresses: range) -> bool:
        """The table of addresses that ``loading`` takes one from has none of these."""
        if loading.memory_base != Register.NONE or loading.memory_index_scale != 8:
            return False
        return self._lacks(loading.memory_displacement, "<Q", addresses)

    def _lacks(self, start: int, layout: str, addresses: range, base: int = 0) -> bool:
        size = 4 if layout == "<i" else 8
        data = self._read(start, size * ENTRIES)
        entries = iter_unpack(layout, data[: len(data) // size * size])
        return len(data) >= size and all(base + entry not in addresses for (entry,) in entries)

    def _writer(self, line: list[Instruction], register: Register_) -> Instruction | None:
        """The last of ``line`` that writes ``register``."""
        name = name_of(register)
        return next((i for i in reversed(line) if name in self.written(i)), None)

    def written(self, instruction: Instruction) -> set[str]:
        """Return the registers that an instruction writes, in whole or in part."""
        used = self._info.info(instruction).used_registers()
        return {name_of(u.register) for u in used if u.access in WRITES} - {""}


def name_of(register: Register_) -> str:
    """Return a register as lbtrace calls it, whatever part of it is meant; empty for others."""
    whole = iced_x86.RegisterExt.full_register(register)
    if iced_x86.RegisterExt.is_vector_register(whole):
        return f"xmm{iced_x86.RegisterExt.number(whole)}"
    return REGISTERS.get(whole, "")
