"""Which registers of x86-64 code hold addresses in its own stack frame, as far as can be shown.

Code is read from a known start, once, in the order of its addresses. That is exact where it is
straight; where ways meet, a register may hold what it does on either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, Register_
from iced_x86 import RegisterExt as Registers

from lbtrace.machine.code_scan import next_leading, pass_over
from lbtrace.machine.held_values import Value
from lbtrace.machine.x86_64.operands import CONDITIONAL_MOVES

_CALLER_SAVED = (
    *(Register.RAX, Register.RCX, Register.RDX, Register.RSI, Register.RDI),
    *(Register.R8, Register.R9, Register.R10, Register.R11),
)
"""What calls change, and arguments are in: System V ABI, x86-64, 3.2.1."""

_START: dict[int, Value] = dict.fromkeys(range(Register.RAX, Register.R15 + 1), Value.UNKNOWN)
_START.update(dict.fromkeys(_CALLER_SAVED, Value.ARGUMENT))
_START[Register.RSP] = Value.OWN

_UNKNOWN: dict[int, Value] = {**dict.fromkeys(_START, Value.UNKNOWN), Register.RSP: Value.OWN}

_FRAME = frozenset({Register.RSP, Register.RBP})
_KEEP = frozenset({Mnemonic.CMP, Mnemonic.TEST, Mnemonic.BT, Mnemonic.NOP})
_COMBINE = frozenset({Mnemonic.ADD, Mnemonic.SUB, Mnemonic.AND, Mnemonic.OR, *CONDITIONAL_MOVES})
_COPY = frozenset({Mnemonic.MOV, Mnemonic.LEA})
_PADDING = frozenset({Mnemonic.NOP, Mnemonic.INT3})
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})
_GOES_ON = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.CALL, FlowControl.INDIRECT_CALL})
LONGEST = 15
"""Bytes of an instruction (Intel SDM 2.3.11)."""

NEAR = 64
"""Instructions that mostly show what a register holds."""

AROUND = 1 << 10
"""Bytes from such an instruction to one that leads to it, at most."""

SHIFTED = 64
"""Bytes in which instructions that are read in a row get into step with those that are run."""

_ALIGNED = 16
"""Functions begin at multiples of it, after padding (gcc -falign-functions)."""


class FrameValues:
    """What registers hold before one instruction after the other."""

    def __init__(self) -> None:
        self._values = dict(_START)
        self._pushed: list[Value] = []
        self._stored: dict[tuple[int, int], Value] = {}
        self._at_targets: dict[int, dict[int, Value]] = {}
        self._back: dict[int, dict[int, Value]] = {}
        self._ended = self._padded = self._guessed = self._aligned = False

    @classmethod
    def unknown(cls) -> FrameValues:
        """Those in the midst of a function, at first."""
        values = cls()
        values._values = dict(_UNKNOWN)
        return values

    @classmethod
    def knowing(cls, before: FrameValues) -> FrameValues:
        """Those at the start of code that was read ``before``, with its jumps back."""
        values = cls()
        values._back = before._back
        return values

    @property
    def guessed(self) -> bool:
        """Whether no jump was seen to lead to where the present code begins."""
        return self._guessed

    @property
    def pushed(self) -> int:
        """How many words were seen to be pushed in a row."""
        return len(self._pushed)

    def of(self, register: Register_) -> Value:
        """What a register holds."""
        return self._values.get(Registers.full_register(register), Value.FOREIGN)

    def of_operand(self, instruction: Instruction, number: int) -> Value:
        """What an operand is: a register, an address, or what is in memory."""
        if instruction.op_kind(number) == OpKind.REGISTER:
            return self.of(instruction.op_register(number))
        if instruction.op_kind(number) != OpKind.MEMORY:
            return Value.FOREIGN
        base, index = instruction.memory_base, instruction.memory_index
        loads = instruction.mnemonic != Mnemonic.LEA
        if loads and not index and base in _FRAME:
            return self._loaded(instruction)
        known = max(self.of(base), self.of(index) if index else Value.FOREIGN)
        if known == Value.OWN and loads and not index and not self._has_base(base):
            return Value.FOREIGN  # by what points into the frame: no compiler restores rsp so
        return Value.FOREIGN if loads and known == Value.ARGUMENT else known

    def _has_base(self, register: Register_) -> bool:
        """Whether a register is LLVM's base pointer, by which it has what is in a frame that is
        aligned and has arrays of variable length."""
        return bool(register == Register.RBX and self._aligned)

    def _loaded(self, instruction: Instruction) -> Value:
        """What is in the frame: its own, if nothing else was stored there just before."""
        base, offset = instruction.memory_base, _offset(instruction)
        if self.of(base) != Value.OWN:
            return self.of(base)
        if base == Register.RSP and 0 <= offset < 8 * len(self._pushed) and not offset % 8:
            return self._pushed[-1 - offset // 8]
        return self._stored.get((base, offset), Value.OWN)

    def reach(self, instruction: Instruction) -> None:
        """Come to an instruction, before it is asked about."""
        there = self._at_targets.pop(instruction.ip, None)
        if there is None and self._ended:
            there = self._back.get(instruction.ip)
        if there is not None:
            if self._ended or self._guessed:
                self._values = dict(there)
            else:
                _merge(self._values, there)
            self._guessed = False
        elif self._ended:
            if instruction.mnemonic in _PADDING:
                self._padded = True
                return
            self._begin_unknown(instruction.ip)
        self._ended = self._padded = False

    def pass_over(self, instruction: Instruction) -> None:
        """Go on to what follows an instruction."""
        flow = instruction.flow_control
        if instruction.is_stack_instruction or flow != FlowControl.NEXT:
            self._stored.clear()
        if flow != FlowControl.NEXT:
            self._turn(instruction, flow)
        elif instruction.mnemonic == Mnemonic.PUSH:
            self._pushed.append(self.of_operand(instruction, 0))
        elif instruction.mnemonic == Mnemonic.POP:
            self._set(instruction.op0_register, self.popped())
            del self._pushed[-1:]
        elif instruction.mnemonic == Mnemonic.LEAVE:
            self._set(Register.RBP, Value.UNKNOWN)
        elif instruction.mnemonic == Mnemonic.XCHG:
            first, second = (self.of_operand(instruction, n) for n in range(2))
            self._set(instruction.op0_register, second)
            self._set(instruction.op1_register, first)
        elif instruction.op_count and instruction.mnemonic not in _KEEP:
            if instruction.op0_kind == OpKind.MEMORY:
                self._store(instruction)
            masks = instruction.mnemonic == Mnemonic.AND
            self._aligned |= masks and instruction.op0_register == Register.RSP
            self._set(instruction.op0_register, self._result(instruction))

    def _store(self, instruction: Instruction) -> None:
        base = instruction.memory_base
        if base in _FRAME and not instruction.memory_index:
            moves = instruction.mnemonic == Mnemonic.MOV
            value = self.of_operand(instruction, 1) if moves else Value.OWN
            self._stored[base, _offset(instruction)] = value

    def popped(self) -> Value:
        """What the next POP takes; what was not seen to be pushed is the frame's."""
        return self._pushed[-1] if self._pushed else Value.OWN

    def _result(self, instruction: Instruction) -> Value:
        if instruction.mnemonic in _COPY:
            return self.of_operand(instruction, 1)
        if instruction.mnemonic not in _COMBINE:
            return Value.FOREIGN
        parts = [self.of_operand(instruction, n) for n in range(instruction.op_count)]
        return Value.OWN if Value.OWN in parts else Value.FOREIGN

    def _set(self, register: Register_, value: Value) -> None:
        """Write a register; whatever the stack pointer is set to, it begins the frame there."""
        full = Registers.full_register(register)
        if full in _FRAME:
            self._stored.clear()
        if full == Register.RSP:
            self._pushed.clear()
        elif full in self._values:
            self._values[full] = Value.FOREIGN if value == Value.ARGUMENT else value

    def _turn(self, instruction: Instruction, flow: int) -> None:
        if flow in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
            target = instruction.near_branch_target
            targets = self._at_targets if target > instruction.ip else self._back
            _merge(targets.setdefault(target, dict(self._values)), self._values)
        if flow in (FlowControl.CALL, FlowControl.INDIRECT_CALL):
            self._call()
        self._ended = flow not in _GOES_ON

    def _call(self) -> None:
        """Change what calls do. Those of assembly to parts of its own preserve its frame, and gcc
        keeps it in registers that a function is known not to change (-fipa-ra)."""
        for register in _CALLER_SAVED:
            if self._values[register] <= Value.ARGUMENT:
                self._values[register] = Value.FOREIGN
            elif register == Register.RAX:
                self._values[register] = Value.UNKNOWN

    def _begin_unknown(self, address: int) -> None:
        """Begin where no jump is seen to lead: with another function, by a computed jump, with
        constants, or by a jump that comes later."""
        self._guessed = True
        self._values = dict(_START)
        if not self._padded or address % _ALIGNED:
            self._values = dict(_UNKNOWN)
        self._pushed.clear()


def _offset(instruction: Instruction) -> int:
    offset: int = instruction.memory_displacement
    return offset - (offset >> 63 << 64)


def _merge(into: dict[int, Value], other: dict[int, Value]) -> None:
    """Add what registers hold where ways meet; what is the frame's on one of them may be it."""
    for register, value in other.items():
        if into[register] != value:
            own = Value.OWN in (into[register], value)
            into[register] = Value.UNKNOWN if own else max(into[register], value)


def values_before(code: bytes, address: int, at: int) -> Iterator[FrameValues]:
    """Yield what registers hold before the instruction at ``at``, nothing where ``code``, which
    begins at ``address``, is not seen to have one there: first as the `NEAR` instructions before it
    show, which mostly do, then as all of them do. Constants may stand among them, and the code be
    reached by jumps back: then the jumps from its start on are followed."""
    values, early, starts = None, *_starts_before(code, at - address)
    if at - address in starts:
        last: deque[int] = deque([address], maxlen=NEAR)
        decoder = Decoder(64, code, ip=address)
        while decoder.can_decode and decoder.ip < at:
            last.append(decoder.ip)
            decoder.decode()
        yield _read(FrameValues.unknown(), Decoder(64, code[last[0] - address :], ip=last[0]), at)
        values = _read(FrameValues(), Decoder(64, code, ip=address), at)
    if values is None or values.guessed:
        line = _follow(code, address, at) if _is_led_to(code, at - address, early, starts) else ()
        if line:
            values = _read(FrameValues.knowing(_read(FrameValues(), line)), line, at)
    if values is not None:
        yield values


def is_instruction(code: bytes, at: int) -> bool:
    """Return whether one of the instructions that follow each other in ``code`` begins there."""
    return _pass_over(code, 0, at) == at


def _starts_before(code: bytes, at: int) -> tuple[int, set[int]]:
    """Where one of the instructions that follow each other in ``code`` begins, `AROUND` bytes
    before ``at``, and all those that do less than `SHIFTED` bytes before it, or there."""
    early = _pass_over(code, 0, max(at - AROUND, 0))
    starts, place = set[int](), _pass_over(code, early, max(at - SHIFTED, 0))
    while place <= at:
        starts.add(place)
        place = _after(code, place)
    return early, starts


def _pass_over(code: bytes, place: int, to: int) -> int:
    while (place := pass_over(code, place, to)) < to:
        place = _after(code, place)
    return place


def _is_led_to(code: bytes, at: int, place: int, starts: set[int]) -> bool:
    """Whether some instruction leads to just before ``at`` otherwise than the order of the
    instructions does: amid one of them, as constants shift what follows on them for some
    instructions, or from behind."""
    low = max(at - SHIFTED, 0)
    while place < len(code):
        place, target = next_leading(code, place, low, at)
        if target < len(code) and (target not in starts or (at in starts and place > at)):
            return True
        if place < len(code):
            place = _after(code, place)
    return False


def _after(code: bytes, place: int) -> int:
    return place + Decoder(64, code[place : place + LONGEST]).decode().len


def _read(values: FrameValues, line: Iterable[Instruction], at: int = -1) -> FrameValues:
    for instruction in line:
        values.reach(instruction)
        if instruction.ip == at:
            break
        values.pass_over(instruction)
    return values


def _follow(code: bytes, address: int, at: int) -> list[Instruction]:
    """The instructions to which control flow leads from the start of ``code``, in order; nothing
    where the one at ``at`` is none. Another function may begin in between, after padding, and a
    computed jump lead to where an address is loaded."""
    reached: dict[int, Instruction] = {}
    ahead, later = [address], list[int]()
    while ahead:
        _follow_from(ahead.pop(), code, address, reached, ahead, later)
        if not ahead and at not in reached:
            ahead, later = later, ahead
    return [reached[each] for each in sorted(reached)] if at in reached else []


def _follow_from(
    at: int,
    code: bytes,
    address: int,
    reached: dict[int, Instruction],
    ahead: list[int],
    later: list[int],
) -> None:
    if not 0 <= at - address < len(code):
        return
    ended = padded = False
    for instruction in Decoder(64, code[at - address :], ip=at):
        flow, mnemonic = instruction.flow_control, instruction.mnemonic
        if ended and mnemonic in _PADDING:
            padded = True
            reached[instruction.ip] = instruction
            continue
        if ended:
            if padded and not instruction.ip % _ALIGNED:
                later.append(instruction.ip)
            return
        if instruction.ip in reached or instruction.is_invalid:
            return
        reached[instruction.ip] = instruction
        if flow in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
            ahead.append(instruction.near_branch_target)
        elif mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
            later.append(instruction.ip_rel_memory_address)
        ended = flow != FlowControl.NEXT and flow not in _GOES_ON
