"""Finds where computed jumps of x86-64 functions lead: through tables of ``switch`` statements and
of computed gotos, or to a constant.

Compilers take a table's address shortly before the jump; where they do so earlier, any table of the
function may be meant. The comparison before the jump gives the number of entries. Without one a
table is read as far as its entries lead to instructions of the function, up to another address that
the function takes: an entry too many, should there be one, also leads to a true instruction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from struct import Struct as Layout
from typing import TYPE_CHECKING, TypeAlias

from iced_x86 import ConditionCode, Decoder, Instruction, Mnemonic, OpKind, Register, RegisterExt
from msgspec import Struct

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.operands import IMMEDIATES, REGISTERS, WRITES

if TYPE_CHECKING:
    import iced_x86

    from lbtrace.machine.x86_64.reached_code import ReachedCode

MASK = (1 << 64) - 1
DISTANCE = Layout("<i")

ENTRIES = 1 << 12
"""Entries of a table, at most."""

NEAR = 24
"""Instructions before a jump that compute its target, at most."""

AHEAD = 2
"""Straight lines of code before the one of a jump that are looked at."""

WAYS = 256
"""Ways to a jump that are looked at, at most: computed gotos share one."""

FEW = 4
"""Ways to another place that are."""

LARGEST = 1 << 15
"""Bytes of a part that is decoded as a whole to find where tables end."""

_COMPARES = frozenset({Mnemonic.CMP, Mnemonic.SUB})
"""A subtraction compares what was there before it: clang's unoptimised code has no other."""

_SUMS = frozenset({Mnemonic.ADD, Mnemonic.SUB, Mnemonic.LEA, Mnemonic.SHL})
_COPIES = frozenset({Mnemonic.MOV, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.MOVSXD})
_FRAME = frozenset({Register.RSP, Register.RBP})


_Cell: TypeAlias = "tuple[iced_x86.Register_, iced_x86.Register_, int]"
"""A place in memory: base, index, displacement."""


class Leads(Struct, frozen=True):
    """The ``addresses`` to which a jump leads; with ``inside`` it chooses one of several places in
    the function, through ``tables``. They are ``open`` where a table may be longer. Where entries
    may lead to code that is in no known function, some of the places are ``unknown``."""

    addresses: tuple[int, ...]
    tables: tuple[range, ...] = ()
    inside: bool = False
    open: bool = False
    unknown: bool = False


class _Step(Struct, frozen=True):
    """How a jump finds its target: by what it ``loads``, to which something is added in a ``sum``;
    ``before`` are the instructions before that, the last first."""

    loads: Instruction | None
    before: Sequence[Instruction]
    sum: bool = False
    constant: int = 0


class SwitchTables:
    """The tables through which the code in ``code`` jumps."""

    def __init__(self, code: ReachedCode) -> None:
        self._code = code
        self._info = _info()
        self._sweeps: dict[tuple[int, int], frozenset[int] | None] = {}
        self._tables: dict[tuple[int, int, int | None, bool], Leads | None] = {}
        self._limits: dict[int, int] = {}
        self._writes: dict[int, frozenset[str]] = {}

    def forget(self) -> None:
        """Forget what may have changed, as more code has become known: a table near the jump, the
        length of which is known, stays what it is."""
        sure = {key: found for key, found in self._tables.items() if found and None not in key[2:]}
        self._tables = {key: found for key, found in sure.items() if key[3]}

    def is_sum(self, jump: Instruction) -> bool:
        """Return whether the target of ``jump`` is computed from more than a pointer: then it is
        that of a ``switch``, and stays in the function."""
        return any(step is not None and step.sum for step in self._steps(jump))

    def of(self, jump: Instruction) -> Leads | None:
        """Return where ``jump`` leads; None where that is unknown."""
        seen = dict.fromkeys(self._leads(step) if step else None for step in self._steps(jump))
        found = [leads for leads in seen if leads is not None]
        if len(found) < len(seen) and not any(leads.inside for leads in found):
            return None
        # Ways that are not seen lead through the same tables as others.
        return _unite(found)

    def _leads(self, step: _Step) -> Leads | None:
        """Where a jump leads that finds its target so."""
        if step.constant:
            return Leads((step.constant,))
        loads, size = step.loads, 4 if step.sum else 8
        if loads is None:
            return None
        limit = self._limit(loads)
        own = [i.memory_displacement for i in step.before if _is_label(i)]
        if not loads.memory_base and not loads.is_ip_rel_memory_operand:
            own = [loads.memory_displacement, *own]
        limits = (limit, None) if limit is not None else (None,)
        for start in own:
            for most in limits:
                found = self._table(start, size, most)
                if found is not None:
                    return found
        labels = dict.fromkeys(self._code.labels())
        if loads.memory_base in _FRAME and not loads.memory_index:  # several have stored there
            reached = map(self._code.instructions.__getitem__, self._code.taken())
            entries = filter(_is_entry, reached)
            labels |= dict.fromkeys(i.memory_displacement for i in entries if not i.memory_base)
        for most in limits:  # any that the function takes the address of
            tables = [self._table(start, size, most, near=False) for start in labels]
            if any(tables):
                return _unite([leads for leads in tables if leads is not None])
        return None

    def _steps(self, jump: Instruction) -> Iterator[_Step | None]:
        """How ``jump`` finds its target; None of ways on which that is not seen."""
        if jump.op0_kind == OpKind.MEMORY:
            before = [*self._before(jump.ip)]
            return iter([_Step(jump, before) if jump.memory_index else None])
        return self._ways(jump.ip, _name(jump.op0_register), AHEAD)

    def _ways(self, ip: int, name: str, ahead: int) -> Iterator[_Step | None]:
        """How what the register has at ``ip`` is found, on each way that leads there."""
        before: Sequence[Instruction] = [*self._before(ip)]
        while True:
            at = self._writer(before, name)
            if not name or (at is None and not ahead):
                yield None
                return
            if at is None:
                most = WAYS if ahead == AHEAD else FEW
                for source, _ in self._leading(ip, most) or [(0, True)]:
                    yield from self._ways(source, name, ahead - 1) if source else iter([None])
                return
            i, before = before[at], before[at + 1 :]
            if i.mnemonic != Mnemonic.MOV or i.op1_kind != OpKind.REGISTER:
                yield _made_by(i, before)
                return
            name = _name(i.op1_register)

    def _before(self, ip: int) -> Iterator[Instruction]:
        """The instructions that lead to the one at ``ip``, the last first, up to what is jumped
        to."""
        line = self._code.straight_line(ip)
        end = line.index(ip)
        for at in reversed(line[max(end - NEAR, 0) : end]):
            yield self._code.instructions[at]

    def _leading(self, ip: int, most: int = FEW) -> list[tuple[int, bool]]:
        """What leads to the straight line of code in which ``ip`` is, and whether by a jump;
        nothing where that is not known, or much."""
        code = self._code
        first = code.straight_line(ip)[0]
        if first == code.start or first in code.landed:
            return []
        found = [*code.leading(first)]
        return found if len(found) <= most else []

    def _writer(self, before: Sequence[Instruction], name: str) -> int | None:
        return next((n for n, i in enumerate(before) if name in self._written(i)), None)

    def _written(self, instruction: Instruction) -> Collection[str | _Cell]:
        written = self._writes.get(instruction.ip)
        if written is None:
            used = self._info.info(instruction).used_registers()
            names = {_name(u.register) for u in used if u.access in WRITES}
            written = self._writes[instruction.ip] = frozenset(names - {""})
        return written

    def _limit(self, loads: Instruction) -> int | None:
        """The highest index, by the comparisons that guard the jump; the first that was found is
        kept, as more ways may become known."""
        limit = self._limits.get(loads.ip)
        if limit is None:
            limit = self._highest(_name(loads.memory_index), loads.ip, jumped=None, ahead=AHEAD)
            if limit is not None:
                self._limits[loads.ip] = limit
        return limit

    def _highest(  # noqa: PLR0911 - a return for each case
        self, index: str | _Cell, ip: int, *, jumped: bool | None, ahead: int
    ) -> int | None:
        """The highest value of ``index`` at ``ip``, or behind a jump there that was ``jumped`` or
        not; None where it is not seen on every way."""
        guarded = jumped is not None and self._guards(ip, jumped=jumped)
        compared: tuple[str | _Cell, int] | None = None
        for i in self._before(ip):
            if guarded and compared is None and i.mnemonic in _COMPARES:
                what = _cell(i) if i.op0_kind == OpKind.MEMORY else _name(i.op0_register)
                if i.mnemonic == Mnemonic.SUB or i.op1_kind not in IMMEDIATES:
                    return None
                compared = what, int(i.immediate(1))
            if index in self._written(i):
                if i.mnemonic not in _COPIES:
                    return None
                index = _cell(i) if i.op1_kind == OpKind.MEMORY else _name(i.op1_register)
            elif compared is not None and compared[0] in self._written(i):
                return None
            if compared is not None and compared[0] == index:
                return compared[1] if compared[1] < ENTRIES else None
            guarded |= i.is_jcc_short_or_near and self._guards(i.ip, jumped=False)
        if compared is not None or not ahead or not index:
            return None
        highest: int | None = None
        for source, by_jump in self._leading(ip):
            way = self._highest(index, source, jumped=by_jump, ahead=ahead - 1)
            if way is None:
                return None
            highest = max(way, highest or 0)
        return highest

    def _guards(self, ip: int, *, jumped: bool) -> bool:
        """Whether a jump at ``ip`` lets only what is at most as high pass."""
        condition = self._code.instructions[ip].condition_code
        return condition == (ConditionCode.BE if jumped else ConditionCode.A)

    def _table(
        self, start: int, size: int, limit: int | None, *, near: bool = True
    ) -> Leads | None:
        """The entries of the table at ``start``, of which the address is taken ``near`` the jump;
        None where there is none."""
        key = start, size, limit, near
        if key not in self._tables:
            self._tables[key] = self._entries(*key)
        return self._tables[key]

    def _entries(self, start: int, size: int, limit: int | None, near: bool) -> Leads | None:
        code, found, unknown = self._code, list[int](), False
        taken = frozenset(code.labels()) - {start} if limit is None else frozenset()
        sure = near and limit is not None
        for at, target in self._targets(start, size, ENTRIES if limit is None else limit + 1):
            if at in taken:
                break
            if not self._fits(target, size, sure=sure):
                unknown = limit is None and self._is_code(target)
                break
            found.append(target)
        open = size == 8 and limit is None
        least = 1 if open and near else 2
        if (limit is not None and len(found) <= limit) or len(found) < least:
            return None
        if code.start in found and size == 8:  # of functions, among them this one
            return None
        table = range(start, start + size * len(found))
        return Leads(tuple(dict.fromkeys(found)), (table,), True, open, unknown and not open)

    def _targets(self, start: int, size: int, most: int) -> Iterator[tuple[int, int]]:
        """Where the entries of the table at ``start`` are, and where they lead."""
        if size == 8:
            for at in range(start, start + size * most, size):
                target = self._code.around.word(at)
                if not target:
                    return
                yield at, target
            return
        words = self._code.around.read(start, size * most)
        for number, (distance,) in enumerate(DISTANCE.iter_unpack(words[: len(words) & -size])):
            yield start + size * number, start + distance & MASK

    def _fits(self, target: int, size: int, *, sure: bool) -> bool:
        """Whether an entry leads to an instruction of the function, as far as can be seen."""
        part = self._code.part(target)
        if sure:
            return part is not None or self._code.knows(target)
        if size == 8 or part is None:
            return part is not None
        starts = self._starts(part)
        return starts is not None and target in starts

    def _is_code(self, target: int) -> bool:
        """Whether there may be code of the function where an entry leads that does not fit."""
        part = self._code.part(target)
        if part is not None:
            return self._starts(part) is None
        return self._code.around.more(target) is not None

    def _starts(self, part: Code) -> frozenset[int] | None:
        """Where the instructions of ``part`` begin; None where data may lie in it."""
        key = part.address, len(part.code)
        if key not in self._sweeps:
            self._sweeps[key] = sweep(part)
        return self._sweeps[key]


def sweep(part: Code) -> frozenset[int] | None:
    """Decode ``part`` from its first byte to its last; None where data may lie in it: what is no
    instruction, or what others read or take the address of; or where it is too large."""
    if len(part.code) > LARGEST:
        return None
    end = part.address + len(part.code)
    starts: list[int] = []
    last = part.address
    for instruction in Decoder(64, part.code, ip=part.address):
        if instruction.is_invalid:
            return None
        starts.append(instruction.ip)
        last = instruction.next_ip
        inside = part.address < instruction.memory_displacement < end
        if inside and instruction.is_ip_rel_memory_operand:
            return None
    return frozenset(starts) if last == end else None


def _unite(found: Sequence[Leads]) -> Leads | None:
    """Where jumps lead together: to one place outside of tables at most."""
    if len(found) < 2:
        return found[0] if found else None
    if not all(leads.inside for leads in found):
        return None
    return Leads(
        tuple(dict.fromkeys(a for leads in found for a in leads.addresses)),
        tuple(dict.fromkeys(table for leads in found for table in leads.tables)),
        inside=True,
        open=any(leads.open for leads in found),
        unknown=any(leads.unknown for leads in found),
    )


def _made_by(i: Instruction, before: Sequence[Instruction]) -> _Step | None:
    """How ``i``, with what comes ``before`` it, makes the target of a jump."""
    if _is_label(i):
        return _Step(None, before, constant=i.memory_displacement)
    if i.mnemonic in _SUMS:
        return _Step(next((b for b in (i, *before) if _is_entry(b)), None), before, sum=True)
    if i.mnemonic != Mnemonic.MOV:
        return None
    if i.op1_kind in IMMEDIATES:
        return _Step(None, before, constant=int(i.immediate(1)) & MASK)
    framed = i.memory_base in _FRAME and not i.memory_index
    return _Step(i, before) if i.memory_index or framed else None


def _is_label(i: Instruction) -> bool:
    return i.mnemonic == Mnemonic.LEA and i.is_ip_rel_memory_operand


def _is_entry(i: Instruction) -> bool:
    """Whether an instruction loads an entry of a table."""
    return i.mnemonic != Mnemonic.LEA and i.memory_index != Register.NONE


def _cell(i: Instruction) -> _Cell:
    return i.memory_base, i.memory_index, i.memory_displacement


def _name(register: iced_x86.Register_) -> str:
    return REGISTERS.get(RegisterExt.full_register(register), "")


def _info() -> iced_x86.InstructionInfoFactory:
    from iced_x86 import InstructionInfoFactory

    return InstructionInfoFactory()
