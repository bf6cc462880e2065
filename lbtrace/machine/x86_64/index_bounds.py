"""Finds the largest index of a jump table, by the comparison that guards the jump."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import iced_x86
from iced_x86 import (
    ConditionCode,
    FlowControl,
    Instruction,
    Mnemonic,
    OpKind,
    Register,
    Register_,
    RflagsBits,
)

from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.machine.x86_64.register_writers import CLOBBERED

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.register_writers import Writers

STEPS = 400
"""Instructions that are looked at for one bound, at most."""

ANY = -1 << 70
"""The bound of a value that no path reaches."""

_AT_MOST = frozenset({ConditionCode.A, ConditionCode.G})
"""What jumps where the first operand is greater: else it is at most the second."""

_BELOW = frozenset({ConditionCode.AE, ConditionCode.GE})
_OPPOSITE = {
    ConditionCode.BE: ConditionCode.A,
    ConditionCode.LE: ConditionCode.G,
    ConditionCode.B: ConditionCode.AE,
    ConditionCode.L: ConditionCode.GE,
}
_TESTED = RflagsBits.CF | RflagsBits.ZF | RflagsBits.SF | RflagsBits.OF
"""The flags that a jump tests; of the x87's own there are more."""

_COMPARES = frozenset({Mnemonic.CMP, Mnemonic.SUB})
"""A subtraction compares what was there before it: clang's unoptimised code has no other."""

_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_FRAME = frozenset({Register.RSP, Register.RBP})

_NEAR = 6
"""Instructions between a comparison and what belongs to it, at most."""

_HIGH = frozenset({Register.AH, Register.BH, Register.CH, Register.DH})

Cell: TypeAlias = tuple[Register_, Register_, int, int, int]
"""A place in memory: base, index, scale, displacement, size."""


class TracedValue(NamedTuple):
    """A register or a cell of memory, whose value plus ``more`` is the index, which is
    ``most`` at most if no comparison gives a lower bound."""

    what: str | Cell
    more: int = 0
    most: int | None = None

    def least(self, bound: int | None) -> int | None:
        """Return the lower of two bounds, either of which may be missing."""
        if bound is None or self.most is None:
            return self.most if bound is None else bound
        return min(bound, self.most)


class Bounds:
    """Finds bounds by going backward from the use of an index."""

    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        self._code = writers.code
        self._steps = 0
        self.loose = False

    def of(self, name: str, ip: int) -> int | None:
        """Return the highest value of a register before the instruction at ``ip``, taken as an
        unsigned number; None where nothing says. It is ``loose`` where the width of the
        index gives it, and not a comparison: then the table may be shorter."""
        self.loose = False
        if ip not in self._code.instructions:
            return None
        self._steps = 0
        found = self._highest(TracedValue(name), ip, set())
        return None if found is None or found < 0 else found

    def _highest(
        self, traced: TracedValue, ip: int, seen: set[tuple[TracedValue, int]]
    ) -> int | None:
        """The highest value of what is traced before the instruction at ``ip``."""
        while self._steps < STEPS:
            self._steps += 1
            leading = self._writers.before(ip)
            if not leading or ip == self._code.start:
                break
            if len(leading) > 1:
                if (traced, ip) in seen:
                    return ANY
                seen.add((traced, ip))
                return self._least(traced, self._of_all(traced, leading, seen))
            ((source, jumped),) = leading
            step = self._across(traced, source, jumped)
            if not isinstance(step, TracedValue):
                return self._least(traced, step)
            traced, ip = step, source
        return self._least(traced, None)

    def _least(self, traced: TracedValue, bound: int | None) -> int | None:
        """The lower of the two bounds of what is traced."""
        least = traced.least(bound)
        if least is not None and least >= 0 and least == traced.most and least != bound:
            self.loose = True
        return least

    def _of_all(
        self,
        traced: TracedValue,
        leading: list[tuple[int, bool]],
        seen: set[tuple[TracedValue, int]],
    ) -> int | None:
        highest = ANY
        for source, jumped in leading:
            step = self._across(traced, source, jumped)
            one = self._highest(step, source, seen) if isinstance(step, TracedValue) else step
            if one is None:
                return None
            highest = max(highest, one)
        return highest

    def _across(self, traced: TracedValue, source: int, jumped: bool) -> TracedValue | int | None:
        """What is to be traced before ``source``, or the bound that is set there."""
        if source < 0:
            return traced  # computed jumps meet there
        instruction = self._code.instructions[source]
        if instruction.is_jcc_short_or_near:
            bound = self._compared(traced, instruction, jumped)
            if bound is not None:
                return bound
        return self._through(traced, instruction)

    def _compared(self, traced: TracedValue, jump: Instruction, jumped: bool) -> int | None:
        """The bound that follows from the comparison before a conditional jump."""
        condition = jump.condition_code
        if jumped:
            condition = _OPPOSITE.get(condition, ConditionCode.NONE)
        if condition not in _AT_MOST and condition not in _BELOW:
            return None
        ip = jump.ip
        for _ in range(_NEAR):
            leading = self._code.before.get(ip)
            if leading is None or self._code.sources.get(ip, ()):
                return None
            instruction = self._code.instructions[leading]
            if instruction.mnemonic in _COMPARES:
                limit = self._limit(traced, instruction)
                return None if limit is None else limit - (condition in _BELOW) + traced.more
            if instruction.rflags_modified & _TESTED:
                return None
            step = self._through(traced, instruction)
            if not isinstance(step, TracedValue):
                return None
            traced, ip = step, leading
        return None

    def _limit(self, traced: TracedValue, compare: Instruction) -> int | None:
        """The number with which ``compare`` compares what is traced."""
        if compare.op1_kind in (OpKind.REGISTER, OpKind.MEMORY):
            return None
        number = int(compare.immediate(1))
        if number >> 31:
            return None
        written = compare.mnemonic == Mnemonic.SUB
        if compare.op0_kind == OpKind.MEMORY:
            return number if not written and _is_cell(traced.what, _cell(compare)) else None
        name = _name(compare.op0_register)
        if not name or name == traced.what:
            return None if written or not name else number
        return number if self._are_same(traced.what, name, compare.ip) else None

    def _are_same(self, what: str | Cell, name: str, ip: int) -> bool:
        """Whether a register, or a cell, and a register hold the same, as one was copied from the
        other."""
        at = ip
        if not isinstance(what, str):
            stored = self._stored(what, ip)
            if stored is None:
                return False
            what, at = stored
        return self._origin(what, at) == self._origin(name, ip)

    def _stored(self, cell: Cell, ip: int) -> tuple[str, int] | None:
        """The register that was stored to all of a cell of the frame shortly before ``ip``, and
        where."""
        if cell[0] not in _FRAME or cell[1] != Register.NONE:
            return None
        for _ in range(_NEAR):
            leading = self._code.before.get(ip)
            if leading is None or self._code.sources.get(ip, ()):
                return None
            i, ip = self._code.instructions[leading], leading
            if i.op_count and i.op0_kind == OpKind.MEMORY and _is_cell(cell, _cell(i)):
                whole = i.mnemonic == Mnemonic.MOV and i.op1_kind == OpKind.REGISTER
                name = _name(i.op1_register) if whole and _cell(i) == cell else ""
                return (name, ip) if name else None
            if i.flow_control != FlowControl.NEXT or _name(cell[0]) in self._writers.written(ip):
                return None
        return None

    def _origin(self, name: str, ip: int) -> tuple[str, frozenset[int | None]]:
        for _ in range(6):
            writers = self._writers.of(name, ip)
            (only,) = writers if len(writers) == 1 else (None,)
            instruction = None if only is None else self._code.instructions[only]
            if instruction is None or not _is_copy(instruction):
                break
            name, ip = _name(instruction.op1_register), instruction.ip
        return name, self._writers.of(name, ip)

    def _through(self, traced: TracedValue, instruction: Instruction) -> TracedValue | int | None:
        """What is to be traced before an instruction, or the bound that it sets."""
        what = traced.what
        if not isinstance(what, str):
            return self._through_memory(traced, what, instruction)
        if what not in self._writers.written(instruction.ip):
            return traced
        if instruction.flow_control in _CALLS or instruction.op0_kind != OpKind.REGISTER:
            return None
        step = _before_write(traced, instruction)
        if instruction.mnemonic in (Mnemonic.AND, Mnemonic.SHR) and step is not None:
            self.loose = True
        return step

    def _through_memory(
        self, traced: TracedValue, cell: Cell, instruction: Instruction
    ) -> TracedValue | int | None:
        base, index = cell[:2]
        registers = {_name(base), _name(index)} - {""}
        if registers & self._writers.written(instruction.ip):
            return None
        if instruction.flow_control in _CALLS:
            return traced if not registers & CLOBBERED else None
        stores = instruction.op_count > 1 and instruction.op0_kind == OpKind.MEMORY
        reads = instruction.mnemonic in (Mnemonic.CMP, Mnemonic.TEST)
        if not stores or reads or not _is_cell(cell, _cell(instruction)):
            return traced
        if instruction.mnemonic != Mnemonic.MOV or instruction.op1_kind != OpKind.REGISTER:
            return None
        return traced._replace(what=_name(instruction.op1_register))


def _before_write(traced: TracedValue, i: Instruction) -> TracedValue | int | None:  # noqa: PLR0911 - a return for each case
    """What is to be traced before an instruction that writes the register."""
    constant = i.op_count > 1 and i.op1_kind not in (OpKind.REGISTER, OpKind.MEMORY)
    bits = 8 * iced_x86.RegisterExt.size(i.op0_register)
    match i.mnemonic:
        case Mnemonic.MOV if constant:
            return int(i.immediate(1)) + traced.more
        case Mnemonic.MOV | Mnemonic.MOVSXD | Mnemonic.MOVZX | Mnemonic.MOVSX:
            return _copied(traced, i)
        case Mnemonic.CDQE:
            return traced
        case Mnemonic.AND if constant and not int(i.immediate(1)) >> 31:
            return int(i.immediate(1)) + traced.more
        case Mnemonic.SHR if constant and bits >= 32:
            return ((1 << bits) - 1 >> int(i.immediate(1))) + traced.more
        case Mnemonic.ADD if constant:
            return traced._replace(more=traced.more + _signed(i.immediate(1)))
        case Mnemonic.SUB if constant:
            return traced._replace(more=traced.more - _signed(i.immediate(1)))
        case Mnemonic.INC | Mnemonic.DEC:
            return traced._replace(more=traced.more + (1 if i.mnemonic == Mnemonic.INC else -1))
        case Mnemonic.LEA if i.memory_index == Register.NONE and _name(i.memory_base):
            more = traced.more + _signed(i.memory_displacement)
            return traced._replace(what=_name(i.memory_base), more=more)
        case Mnemonic.XOR if i.op0_register == i.op1_register:
            return traced.more
        case _:
            return None


def _copied(traced: TracedValue, i: Instruction) -> TracedValue | int | None:
    """What is to be traced before a move, which may extend a byte."""
    what: str | Cell
    if i.op1_kind == OpKind.REGISTER:
        what, size = _name(i.op1_register), iced_x86.RegisterExt.size(i.op1_register)
        if i.op1_register in _HIGH:
            return traced.least(255 + traced.more if i.mnemonic == Mnemonic.MOVZX else None)
    else:
        what = _cell(i)
        size = what[4]
    if not what:
        return None
    if i.mnemonic == Mnemonic.MOVZX and size == 1:
        return traced._replace(what=what, most=traced.least(255 + traced.more))
    return traced._replace(what=what)


def _is_copy(i: Instruction) -> bool:
    return (
        i.mnemonic in (Mnemonic.MOV, Mnemonic.MOVSXD, Mnemonic.MOVZX)
        and i.op0_kind == OpKind.REGISTER
        and i.op1_kind == OpKind.REGISTER
        and bool(_name(i.op1_register))
        and iced_x86.RegisterExt.size(i.op0_register) >= 4
    )


def _cell(i: Instruction) -> Cell:
    return (
        i.memory_base,
        i.memory_index,
        i.memory_index_scale,
        i.memory_displacement,
        iced_x86.MemorySizeExt.size(i.memory_size),
    )


def _is_cell(what: str | Cell, other: Cell) -> bool:
    """Whether both begin at the same place; a part may be compared, a part loaded."""
    return not isinstance(what, str) and what[:4] == other[:4]


def _name(register: Register_) -> str:
    return REGISTERS.get(iced_x86.RegisterExt.full_register(register), "")


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number
