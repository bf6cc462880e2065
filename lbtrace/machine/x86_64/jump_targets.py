"""Finds where computed jumps of x86-64 functions lead: through tables, or to constants.

The jump's target is written out as a sum, by looking backward for what wrote
each register: a table's address and an entry of it (position-independent
code), an entry alone (a table of addresses, also that of computed gotos), or a
constant (``-mcmodel=large``). The comparison before the jump, or the width of the index, gives the
number of entries; where neither does, `lbtrace.machine.x86_64.table_ends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import iced_x86
from iced_x86 import FlowControl, Instruction, Mnemonic, OpKind, Register, Register_
from msgspec import Struct

from lbtrace.machine.x86_64.address_sums import MASK, Index, Load, Sum
from lbtrace.machine.x86_64.frame_stores import Cell, FrameStores, cell_of
from lbtrace.machine.x86_64.index_bounds import Bounds
from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.machine.x86_64.register_writers import CLOBBERED, Writers
from lbtrace.machine.x86_64.table_ends import SIZE, TableEnds

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.reached_code import ReachedCode

ENTRIES = 1 << 16
"""Entries of one table, at most."""

BYTE = 255
"""What the width of a byte bounds: a mask that is lower is said to be the length of the table."""

DEPTH = 12
"""Instructions that compute an address one from the other, at most."""

SUMS = frozenset({Mnemonic.ADD, Mnemonic.SUB, Mnemonic.LEA, Mnemonic.SHL})

NUMBERS = frozenset(
    {OpKind.IMMEDIATE8TO64, OpKind.IMMEDIATE32TO64, OpKind.IMMEDIATE8TO32, OpKind.IMMEDIATE32}
)

CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})

CARRIED = CLOBBERED - {"ax", "dx"}
"""What no function of C returns. Where it is read after a call, though calls may change it, the
compiler knows that this one leaves it alone (gcc's ``-fipa-ra``)."""

SIZES = frozenset({1, 2, 4, 8})


class Leads(Struct, frozen=True):
    """The ``addresses`` to which a jump leads. With ``inside`` it chooses one of several
    places in the function, through ``tables``. They are ``loose`` where a table may be
    shorter than was taken, and ``open`` where it may be longer. Where entries may lead to code that
    is in no known function, some of the places are ``unknown``."""

    addresses: tuple[int, ...]
    tables: tuple[range, ...] = ()
    inside: bool = False
    loose: bool = False
    open: bool = False
    unknown: bool = False


class Targets:
    """Finds where computed jumps of the code in ``code`` lead."""

    def __init__(self, code: ReachedCode) -> None:
        self._code = code
        self._around = code.around
        self._writers = Writers(code)
        self._bounds = Bounds(self._writers)
        self._ends = TableEnds(code)
        self._values: dict[tuple[str, int], Sum] = {}
        self._tables: dict[tuple[int, int, int | None], tuple[int, ...]] = {}
        self._kept: dict[Cell, Sum | None] = {}
        self._keeping = False
        self._stores = FrameStores(code)

    def forget(self) -> None:
        """Forget what may have changed, as more code has become known."""
        self._writers.forget()
        self._ends.forget()
        self._values.clear()
        self._tables.clear()
        self._kept.clear()

    def of(self, jump: Instruction) -> Leads | None:
        """Return where ``jump`` leads; None where that is unknown."""
        if jump.op0_kind == OpKind.MEMORY:
            return self._resolved([Sum(0, ((1, Load(self._address(jump, 0), 8, False)),))])
        name = REGISTERS.get(jump.op0_register)
        if name is None:
            return None
        writers = self._writers.of(name, jump.ip)
        if None in writers or not writers:
            return None
        sums: list[Sum] = []
        for writer in writers:
            assert writer is not None
            i = self._code.instructions[writer]
            loads = i.mnemonic == Mnemonic.MOV and i.op1_kind == OpKind.MEMORY
            sums += (self._loaded(i) if loads else ()) or [self._written(name, writer, 0)]
        return self._resolved(sums)

    def is_sum(self, jump: Instruction) -> bool:
        """Return whether the target of ``jump`` is computed from more than a pointer: then it is
        that of a ``switch``, and stays in the function."""
        name = REGISTERS.get(jump.op0_register, "")
        if jump.op0_kind == OpKind.MEMORY or not name:
            return False
        written = (self._code.instructions.get(w or 0) for w in self._writers.of(name, jump.ip))
        return any(i is not None and i.mnemonic in SUMS for i in written)

    def _resolved(self, sums: list[Sum]) -> Leads | None:
        leads: list[Leads] = []
        for total in sums:
            found = self._leads(total)
            if found is None:
                return None
            leads.append(found)
        inside = any(found.inside for found in leads)
        if not inside and len(leads) > 1:
            return None
        if len(leads) == 1 and len(set(leads[0].addresses)) == len(leads[0].addresses):
            return leads[0]
        addresses = dict.fromkeys(a for found in leads for a in found.addresses)
        tables = tuple(table for found in leads for table in found.tables)
        loose, open = any(f.loose for f in leads), any(f.open for f in leads)
        return Leads(tuple(addresses), tables, inside, loose, open, any(f.unknown for f in leads))

    def _leads(self, total: Sum) -> Leads | None:  # noqa: PLR0911 - a return for each case
        if not total.terms:
            return Leads((total.constant,))
        if len(total.terms) != 1:
            return None
        ((factor, term),) = total.terms
        if isinstance(term, Index):
            return self._computed(total.constant, factor, term)
        address = term.address
        if len(address.terms) != 1:
            return None
        ((stride, index),) = address.terms
        if not isinstance(index, Index) or not address.constant:
            return None
        if stride < term.size or stride > 16:
            return None
        return self._table(total.constant, factor, term, stride, index)

    def _computed(self, base: int, stride: int, index: Index) -> Leads | None:
        """Code in pieces of one length: the jump leads to one of them."""
        count = self._bounds.of(index.name, index.ip) if base and 1 < stride <= 256 else None
        if count is None or count > ENTRIES:
            return None
        ends = tuple(base + stride * n for n in range(count + 1))
        return Leads(ends, (), inside=True)

    def _table(
        self, base: int, factor: int, entry: Load, stride: int, index: Index
    ) -> Leads | None:
        start = entry.address.constant
        highest = self._bounds.of(index.name, index.ip)
        bounded = highest is not None and not self._bounds.loose
        form = entry.size, entry.signed, stride, factor, base
        most = ENTRIES if highest is None else highest + 1
        if form == (SIZE, True, SIZE, 1, start) and not bounded and most > BYTE:
            found = self._ends.entries(start, min(most, ENTRIES))
            if found is not None:
                table = range(start, start + SIZE * len(found.addresses))
                return Leads(found.addresses, (table,), True, loose=True, unknown=found.more)
        if entry.size == 8:
            limit = highest if bounded else None
            words = self._tables.get((start, stride, limit))
            if words is None:
                words = self._tables[start, stride, limit] = self._words(start, stride, limit)
        elif highest is None or highest > ENTRIES:
            return None
        else:
            words = self._numbers(start, stride, highest, entry)
        if not words:
            return None
        if base or factor != 1:
            words = tuple(base + factor * word & MASK for word in words)
        end = start + stride * (len(words) - 1) + entry.size
        numbers = entry.size < 8
        tables = (range(start, end),)
        return Leads(words, tables, True, numbers and not bounded, not numbers and not bounded)

    def _numbers(self, start: int, stride: int, highest: int, entry: Load) -> tuple[int, ...]:
        """The entries of a table of numbers; none where some are not in the file."""
        size = stride * highest + entry.size
        data = self._around.read(start, size)
        if len(data) < size:
            return ()
        return tuple(
            int.from_bytes(data[at : at + entry.size], "little", signed=entry.signed)
            for at in range(0, size, stride)
        )

    def _words(self, start: int, stride: int, highest: int | None) -> tuple[int, ...]:
        """The entries of a table of addresses. Without a bound it ends with the first that is
        no address in the function: nothing but code has such words."""
        words: list[int] = []
        for number in range(ENTRIES if highest is None else min(highest + 1, ENTRIES)):
            word = self._around.word(start + stride * number)
            if word is None or not (self._code.part(word) or (word and self._code.knows(word))):
                return tuple(words) if highest is None else ()
            words.append(word)
        return tuple(words)

    def _address(self, instruction: Instruction, depth: int) -> Sum:
        """The address of an instruction's operand in memory."""
        if instruction.segment_prefix in (Register.FS, Register.GS):
            return Sum(0, ((1, Index("fs", instruction.ip)), (1, Index("gs", instruction.ip))))
        total = Sum(instruction.memory_displacement)
        if instruction.is_ip_rel_memory_operand:
            return total
        for register, scale in (
            (instruction.memory_base, 1),
            (instruction.memory_index, instruction.memory_index_scale),
        ):
            if register != Register.NONE:
                value = self._value(register, instruction.ip, depth + 1)
                loads = any(isinstance(term, Load) for _, term in value.terms)
                plain = not value.constant and all(f == 1 for f, _ in value.terms)
                if value.terms and (loads or plain):
                    value = Sum(0, ((1, Index(_name(register), instruction.ip)),))
                total = total.plus(value.times(scale))
        return total

    def _value(self, register: Register_, ip: int, depth: int) -> Sum:
        """What a register holds before the instruction at ``ip``."""
        name = _name(register)
        unknown = Sum(0, ((1, Index(name, ip)),))
        if depth > DEPTH or not name:
            return unknown
        if (name, ip) not in self._values:
            self._values[name, ip] = unknown  # for values that depend on themselves
            self._values[name, ip] = self._of_writers(name, ip, unknown, depth)
        return self._values[name, ip]

    def _of_writers(self, name: str, ip: int, unknown: Sum, depth: int) -> Sum:
        writers = self._writers.of(name, ip)
        if None in writers:
            return unknown
        if len(writers) == 1:
            (writer,) = writers
            found = self._written(name, writer, depth) if writer is not None else unknown
            return unknown if found == Sum(0, ((1, Index(name, -1)),)) else found
        if name in CARRIED:
            writers = frozenset(w for w in writers if not self._is_call(w))
        values = {self._written(name, w, depth) for w in writers if w is not None}
        if len(values) == 1 and not (value := values.pop()).terms:
            return value
        return unknown

    def _is_call(self, ip: int | None) -> bool:
        return ip is not None and self._code.instructions[ip].flow_control in CALLS

    def _written(self, name: str, ip: int, depth: int) -> Sum:
        """What the register ``name`` holds after the instruction at ``ip``, which writes it."""
        instruction = self._code.instructions[ip]
        if instruction.mnemonic == Mnemonic.CDQE:
            value = self._value(Register.EAX, ip, depth + 1)
            return _extended(value, Index(name, instruction.next_ip))
        return self._assigned(name, instruction, depth)

    def _assigned(self, name: str, instruction: Instruction, depth: int) -> Sum:
        """The same of an instruction whose first operand is the register."""
        unknown = Sum(0, ((1, Index(name, -1)),))
        if instruction.op_count < 1 or instruction.op0_kind != OpKind.REGISTER:
            return unknown
        size = iced_x86.RegisterExt.size(instruction.op0_register)
        if size < 4 or instruction.flow_control != FlowControl.NEXT:
            return unknown
        found = self._result(instruction, depth + 1)
        if found is None:
            return unknown
        if size == 4 and not found.terms:
            return Sum(found.constant & 0xFFFFFFFF)
        loads = any(isinstance(term, Load) for _, term in found.terms)
        narrow = size == 4 and instruction.mnemonic != Mnemonic.SHL
        if found.terms and not loads and (narrow or instruction.op1_kind in NUMBERS):
            return unknown
        return found

    def _result(self, i: Instruction, depth: int) -> Sum | None:  # noqa: PLR0911 - a return for each case
        match i.mnemonic:
            case Mnemonic.LEA:
                found = self._address(i, depth)
                # An index with something added: what it may be is asked of the sum.
                return None if found.terms and not i.memory_index else found
            case Mnemonic.MOV | Mnemonic.MOVSXD | Mnemonic.MOVZX | Mnemonic.MOVSX:
                return self._moved(i, depth)
            case Mnemonic.ADD:
                return self._value(i.op0_register, i.ip, depth).plus(self._operand(i, depth))
            case Mnemonic.SUB:
                other = self._operand(i, depth).times(-1)
                return self._value(i.op0_register, i.ip, depth).plus(other)
            case Mnemonic.XOR if i.op1_kind == OpKind.REGISTER:
                return Sum() if i.op0_register == i.op1_register else None
            case Mnemonic.SHL if i.op1_kind == OpKind.IMMEDIATE8:
                return self._value(i.op0_register, i.ip, depth).times(1 << i.immediate(1) % 64)
            case Mnemonic.IMUL if i.op_count == 3 and i.op1_kind == OpKind.REGISTER:
                return self._value(i.op1_register, i.ip, depth).times(i.immediate(2))
            case _:
                return None

    def _moved(self, i: Instruction, depth: int) -> Sum | None:  # noqa: PLR0911 - a return for each case
        signed = i.mnemonic in (Mnemonic.MOVSXD, Mnemonic.MOVSX)
        if i.op1_kind == OpKind.MEMORY:
            address = self._address(i, depth)
            size = iced_x86.MemorySizeExt.size(i.memory_size)
            kept = self._spilled(i, size)
            if kept is not None:
                return kept
            if size == 8 and not address.terms:
                word = self._around.word(address.constant)
                if word:
                    return Sum(word)
            return Sum(0, ((1, Load(address, size, signed)),)) if size in SIZES else None
        if i.op1_kind != OpKind.REGISTER:
            return Sum(i.immediate(1) & MASK)
        value = self._value(i.op1_register, i.ip, depth)
        loaded = len(value.terms) == 1 and isinstance(value.terms[0][1], Load)
        if i.mnemonic == Mnemonic.MOVSXD and loaded:
            return _extended(value, Index(_name(i.op0_register), i.next_ip))
        if value.terms and iced_x86.RegisterExt.size(i.op1_register) < 8 and not loaded:
            # An index: what it may be is asked where it is extended.
            return Sum(0, ((1, Index(_name(i.op0_register), i.next_ip)),))
        return value

    def _operand(self, i: Instruction, depth: int) -> Sum:
        """The second operand of a sum."""
        if i.op1_kind == OpKind.REGISTER:
            return self._value(i.op1_register, i.ip, depth)
        if i.op1_kind == OpKind.MEMORY:
            size = iced_x86.MemorySizeExt.size(i.memory_size)
            return Sum(0, ((1, Load(self._address(i, depth), size, False)),))
        return Sum(i.immediate(1) & MASK)

    def _spilled(self, i: Instruction, size: int) -> Sum | None:
        """The constant that the function keeps in a word of its frame, if it is always one."""
        place = cell_of(i) if size == 8 else None
        if place is None:
            return None
        if place not in self._kept:
            if self._keeping:  # of those, one does not depend on another
                return None
            self._keeping = True
            found = set(self._stored(place) or ())
            only = next(iter(found), None)
            self._kept[place] = only if len(found) == 1 and only and not only.terms else None
            self._keeping = False
        return self._kept[place]

    def _stored(self, place: Cell) -> list[Sum] | None:
        """What registers the function stores to a word of its frame; None if it writes there
        otherwise."""
        stores = self._stores.to(place)
        if any(i.mnemonic != Mnemonic.MOV or i.op1_kind != OpKind.REGISTER for i in stores):
            return None
        return [self._value(i.op1_register, i.ip, 1) for i in stores]

    def _loaded(self, i: Instruction) -> list[Sum]:
        """What ``i`` loads from a word of the frame: the target of a jump for which several places
        have stored theirs, as computed gotos in clang's unoptimised code. Else nothing."""
        place = cell_of(i) if iced_x86.MemorySizeExt.size(i.memory_size) == 8 else None
        stored = self._stored(place) if place is not None else None
        return stored if stored and all(total.terms for total in stored) else []


def _extended(value: Sum, index: Index) -> Sum:
    """What is left of a ``value`` when its lower half is extended with its sign: a load of four
    bytes is a signed one then; what else it may be is asked of the ``index``."""
    if len(value.terms) == 1 and not value.constant:
        ((factor, term),) = value.terms
        if factor == 1 and isinstance(term, Load):
            return Sum(0, ((1, term._replace(signed=True)),)) if term.size == 4 else value
    return Sum(0, ((1, index),))


def _name(register: Register_) -> str:
    return REGISTERS.get(iced_x86.RegisterExt.full_register(register), "")
