"""Reads x86-64 instructions in a row: what they call, whether they look at return addresses.

The stack pointer, and copies of it, are followed from one to the next, and by jumps to those that
come later. An earlier sweep of the same instructions knows of those that jumps lead back to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import Access, Code, Handed, Reach
from lbtrace.machine.x86_64.branches import adds_up, is_switch
from lbtrace.machine.x86_64.stack_copies import StackCopies, common, is_realigned, strays
from lbtrace.machine.x86_64.stack_depth import UNKNOWN, Stack

_LOADS = frozenset({Mnemonic.MOV, Mnemonic.XCHG, Mnemonic.POP, Mnemonic.LEA})
"""What loads the stack pointer, rather than to move or align it."""

_STRAIGHT = FlowControl.NEXT
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_ENDS = frozenset(
    {
        *(FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH),
        FlowControl.EXCEPTION,
    }
)
_PADDING = frozenset({Mnemonic.NOP, Mnemonic.INT3})
_FRAME = (Register.RSP, Register.RBP)
_POPS = frozenset({Mnemonic.POP, Mnemonic.POPFQ})
_HISTORY = 8
_LABELLED = 64
_AHEAD = 12
"""Instructions between those of gcc that realign a stack, at most."""


class Sweep:
    """Reads instructions in the order of their addresses. ``fails`` says why they are not all that
    may run, ``differs`` that control flow leads somewhere with two depths of the stack; an
    ``earlier`` sweep of the same ones knows where jumps lead with which stack. What is handed on by
    parameters is ``told`` if that is asked; ``follows`` says that the instructions are in the order
    of control flow."""

    def __init__(
        self,
        code: Code,
        depth: int | None,
        earlier: Sweep | None = None,
        *,
        told: bool = False,
        follows: bool = False,
    ) -> None:
        self._follows = follows
        self._code = code
        self._end = code.address + len(code.code)
        self._calls: dict[int, None] = {}
        self._jumps: dict[tuple[int, int | None], None] = {}
        self._call_slots: dict[int, None] = {}
        self._jump_slots: dict[int, None] = {}
        self._starts: set[int] = set()
        self._targets: dict[int, Stack] = dict(earlier._known_later()) if earlier else {}
        self._given = frozenset(self._targets)
        self._lost: set[int] = set()
        self._strays = self._pops = self._most_pops = 0
        self._computes = False
        self._computes_at: int | None = None
        self._labels: list[int] = []
        self._outside: dict[int, None] = {}
        self._told = told
        self._handed: dict[Handed, None] = {}
        self._accesses: dict[Access, None] = {}
        self._later: list[int] = []
        self.fails = ""
        self.differs = False
        self._read_with: dict[int, int | None] = {}
        self._doubt = ""
        self._keeps = self._walks = self._jumps_away = False
        self._stack = Stack(depth)
        self._deepest = depth or 0
        self._switched = UNKNOWN
        self._begun = depth
        self._unsure: list[int] = []
        self._based = False
        self._callers = depth == 0
        self._copies = StackCopies()
        self._copies_at: dict[int, dict[int, int]] = {}
        if earlier is not None:
            self._copies_at = {target: earlier._copies_at[target] for target in self._targets}
        if told and depth == 0:
            self._copies.begin()
        self._switched_copies: dict[int, int] = {}
        self._exchanges = b"\x87" in code.code  # XCHG: Intel SDM volume 2

    def run(self, instructions: Iterable[Instruction]) -> None:
        """Read ``instructions``; stops at what is none."""
        # Of each instruction little is asked: a large program has millions.
        last, starts, targets = _STRAIGHT, self._starts, self._targets
        history: deque[Instruction] = deque(maxlen=_HISTORY)
        following = self._code.address
        for instruction in instructions:
            ip = instruction.ip
            if ip != following:
                self._pass_over(following, ip, last)
            following = instruction.next_ip
            starts.add(ip)
            if ip in targets:
                self._arrive(ip, never_returned=last in _CALLS)
            elif last != _STRAIGHT and instruction.mnemonic in _PADDING:
                continue
            if self._follows:
                self._read_with[ip] = self._stack.pointer
            if self._stack.pointer is None:
                self._lost.add(ip)
            last = instruction.flow_control
            framed = instruction.memory_base in _FRAME
            if framed and instruction.memory_index == Register.NONE:
                self._look(instruction)
            if last == _STRAIGHT:
                if instruction.mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
                    self._label(instruction.ip_rel_memory_address)
                self._pass(instruction, framed)
                history.append(instruction)
                continue
            if instruction.is_invalid:
                self.fails = f"holds bytes at {ip:#x} that are no code"
                return
            if framed or self._copies.held:
                self._access(instruction)
            self._turn(instruction, last, history)
        if not starts.issuperset(targets) or (
            self._computes and not starts.issuperset(self._labels)
        ):
            self.fails = "jumps into the midst of an instruction"
        self._end_at(following, last)

    @property
    def may_find_more(self) -> bool:
        """Whether something is read by a stack pointer of which nothing is known, in code that
        jumps lead back to: with which stack is known the second time. Mostly it is the whole
        frame, which `found` takes for it."""
        moved = self._strays or any(depth < self._deepest for depth in self._later)
        if not moved or not self._later:
            return False
        return bool(self._unsure) or self._strays > 1 or 8 * self._most_pops > min(self._later)

    def found(self) -> Reach:
        """Return what was found."""
        # Where the depth is not known, it is mostly that of the whole frame.
        self._keeps |= self._deepest in self._unsure
        return Reach(
            tuple(self._calls),
            tuple(self._jumps),
            tuple(self._call_slots),
            tuple(self._jump_slots),
            self._doubt,
            self._keeps,
            self._walks,
            jumps_away=self._jumps_away,
            labels=tuple(self._outside) if self._computes else (),
            computes_at=self._computes_at,
            handed=tuple(self._handed),
            accesses=tuple(self._accesses),
        )

    def _known_later(self) -> Iterator[tuple[int, Stack]]:
        """The stacks with which jumps lead back to code that was read without knowing any."""
        for target, stack in self._targets.items():
            if target in self._given or (target in self._lost and stack.pointer is not None):
                yield target, stack

    def _label(self, target: int) -> None:
        """Note an address that the code takes, where a computed jump may lead."""
        if self._code.address < target < self._end:
            self._labels.append(target)
        elif len(self._outside) < _LABELLED:
            self._outside[target] = None

    def _end_at(self, end: int, last: int) -> None:
        """Note it where code continues beyond its end; what is called there does not return."""
        if last not in _ENDS | _CALLS and end == self._end:
            self._in_doubt("continues beyond its end")
            self._jumps[self._end, self._stack.pointer] = None

    def _pass_over(self, end: int, ip: int, last: int) -> None:
        """Go on at ``ip``, which does not follow on what ended at ``end``."""
        self._end_at(end, last)
        if last not in _ENDS and end != self._end:  # it continues with what is known
            self._lead(end)
        self._copies.numbers.clear()
        self._stack = self._targets.get(ip, self._switched)
        self._copies.held = dict(self._copies_at.get(ip, self._switched_copies))

    def _arrive(self, ip: int, *, never_returned: bool) -> None:
        """Go on where jumps lead."""
        if self._stack != self._targets[ip]:
            depths = {self._stack.pointer, self._targets[ip].pointer}
            self.differs |= not never_returned and None not in depths and len(depths) > 1
            self._stack = self._merged(self._targets[ip])
        self._copies.meet(self._copies_at[ip], never_returned=never_returned)
        self._begun = self._stack.pointer

    def _pass(self, instruction: Instruction, framed: bool) -> None:
        """Follow a plain instruction; ``framed`` says that it reaches memory by rsp or rbp."""
        if self._stack.pointer is None:
            self._strays |= strays(instruction)
            self._pops += instruction.mnemonic in _POPS
            self._most_pops = max(self._most_pops, self._pops)
        first, copies, before = instruction.op0_register, self._copies, self._stack
        touched = framed or bool(copies.held)
        realigned = touched and self._access(instruction)
        moves = first in _FRAME or instruction.is_stack_instruction
        if moves or touched or instruction.op1_register in _FRAME:
            self._walks |= copies.follow(instruction, before, self._callers)
        copies.numbers.count(instruction)
        if moves:
            self._move(instruction, first)
            self._restore(instruction, first, before)
            if realigned:
                self._stack = Stack(0)
        elif self._callers or before.base == 8 or self._exchanges:
            self._take(instruction)

    def _turn(self, instruction: Instruction, flow: int, history: Sequence[Instruction]) -> None:
        """Follow an instruction that is not plain."""
        self._pops = 0
        self._flow(instruction, flow, history)
        if flow in _CALLS:
            self._copies.called()
        self._begun = self._stack.pointer
        if flow in _ENDS:
            self._copies.numbers.clear()
            self._stack = self._targets.get(instruction.next_ip, self._switched)
            held = self._copies_at.get(instruction.next_ip, self._switched_copies)
            self._copies.held = {**held}

    def _merged(self, other: Stack) -> Stack:
        if self._stack == UNKNOWN:
            return other
        return Stack(*(a if a == b else None for a, b in zip(self._stack, other, strict=True)))

    def _in_doubt(self, why: str) -> None:
        self._doubt = self._doubt or why

    def _move(self, instruction: Instruction, first: int) -> None:
        """Follow an instruction that changes the stack pointer or rbp."""
        before = self._stack
        self._stack = before.after(instruction)
        self._callers &= first != Register.RBP
        self._deepest = max(self._deepest, self._stack.pointer or 0)
        self._based |= self._stack.base is not None
        mnemonic = instruction.mnemonic
        if mnemonic == Mnemonic.XCHG or (
            first == Register.RSP and mnemonic in _LOADS and self._stack.pointer is None
        ):
            self._in_doubt(f"sets its stack pointer at {instruction.ip:#x}")
        self._keeps |= mnemonic == Mnemonic.POP and before.pointer == 0

    def _access(self, instruction: Instruction) -> bool:
        """Note it where an instruction reaches the return address, or the saved frame pointer, by a
        copy of the stack pointer; return whether it does so to realign the stack."""
        copies, stack = self._copies, self._stack
        if self._told and (access := copies.access(instruction, stack)) is not None:
            self._accesses[access] = None
        if copies.is_put_away(instruction, stack):
            self._keeps = True
        elif copies.reads(instruction, stack, 0):
            base = instruction.memory_base
            if instruction.mnemonic == Mnemonic.PUSH and stack.pointer is None:
                start = instruction.next_ip - self._code.address
                ahead = Decoder(64, self._code.code[start:], ip=instruction.next_ip)
                if is_realigned([*islice(ahead, _AHEAD)], base):
                    return True
            self._keeps = True
        elif stack.base == 8 and instruction.memory_base != Register.RBP:
            loads = instruction.mnemonic != Mnemonic.POP and instruction.op0_kind != OpKind.MEMORY
            if loads and instruction.op0_register != Register.RBP:
                self._walks |= copies.reads(instruction, stack, 8)
        return False

    def _restore(self, instruction: Instruction, first: int, before: Stack) -> None:
        """Follow rsp and rbp where they are set to a copy of what rsp was."""
        stack = self._stack
        if first == Register.RSP and stack.pointer is None:
            self._stack = stack._replace(pointer=self._copies.restored(instruction, before))
        elif first == Register.RBP and stack.base is None:
            self._stack = stack._replace(base=self._copies.restored(instruction, before))

    def _take(self, instruction: Instruction) -> None:
        """Note it where the frame pointer is taken as a value, or another stack is."""
        if instruction.op_count < 2 or instruction.op1_kind != OpKind.REGISTER:
            return
        second, mnemonic = instruction.op1_register, instruction.mnemonic
        if second == Register.RBP and mnemonic in _LOADS:
            self._walks |= self._callers or self._stack.base == 8
        elif second == Register.RSP and mnemonic == Mnemonic.XCHG:
            self._in_doubt(f"sets its stack pointer at {instruction.ip:#x}")

    def _look(self, instruction: Instruction) -> None:
        """Note it where an instruction reads the return address, or follows frame pointers."""
        offset = instruction.memory_displacement
        offset -= offset >> 63 << 64
        if instruction.mnemonic == Mnemonic.LEA and instruction.op0_register in _FRAME:
            return
        if instruction.memory_base == Register.RSP:
            if self._stack.pointer is None:
                self._unsure.append(offset)
            else:
                self._keeps |= offset == self._stack.pointer
        elif self._stack.base is not None:
            self._keeps |= offset == self._stack.base
            self._walks |= offset == 0 and self._stack.base == 8
        elif self._callers:
            self._walks |= offset in (0, 8)
        elif self._based and self._stack == UNKNOWN:
            self._keeps |= offset == 8

    def _flow(self, instruction: Instruction, flow: int, history: Sequence[Instruction]) -> None:
        if flow == FlowControl.RETURN:
            self._return(instruction)
        elif flow in _CALLS:
            self._keeps |= self._copies.is_passed()
            self._call(instruction)
        elif flow == FlowControl.INDIRECT_BRANCH:
            self._keeps |= self._copies.is_passed()
            if instruction.is_ip_rel_memory_operand:
                self._jump_slots[slot := instruction.ip_rel_memory_address] = None
                return self._hand_on(slot)
            self._computes, self._computes_at = True, self._stack.pointer
            for label in self._labels:
                self._lead(label)
            self._jumps_away |= not (adds_up(instruction, history) or self._stack.pointer)
            if is_switch(instruction, history):
                self._switched, self._switched_copies = self._stack, self._copies.held
            else:
                self._in_doubt(f"jumps through a pointer at {instruction.ip:#x}")
        elif flow in (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH):
            self._jump(instruction)
        elif flow != FlowControl.EXCEPTION:
            self._in_doubt(f"runs an unusual instruction at {instruction.ip:#x}")

    def _return(self, instruction: Instruction) -> None:
        if instruction.mnemonic != Mnemonic.RET:
            self._in_doubt(f"leaves by a far return at {instruction.ip:#x}")
        elif self._stack.pointer is not None and self._begun is not None:
            # Before this stretch of code the depth may be mistaken, behind a jump table.
            self._keeps |= self._stack.pointer < min(self._begun, 0)
            if self._stack.pointer > max(self._begun, 0):
                self._jumps_away = True
                self._in_doubt(f"returns to what it pushed at {instruction.ip:#x}")

    def _jump(self, instruction: Instruction) -> None:
        target = instruction.near_branch_target
        if target <= instruction.ip:
            self._copies.numbers.clear()  # what a loop counted
        if instruction.op0_kind != OpKind.NEAR_BRANCH64:
            self._in_doubt(f"leaves by a far jump at {instruction.ip:#x}")
        elif not self._code.address <= target < self._end:
            self._jumps[target, self._stack.pointer] = None
            self._keeps |= self._copies.is_passed()
            self._hand_on(target)
        else:
            self._lead(target)

    def _lead(self, target: int) -> None:
        """Note with which stack control flow leads to ``target``."""
        if target in self._lost and self._stack.pointer is not None:
            self._later.append(self._stack.pointer)
        if self._follows:
            known = self._read_with.get(target)
            self.differs |= known is not None and self._stack.pointer not in (known, None)
        if self._targets.setdefault(target, self._stack) != self._stack:
            self._targets[target] = UNKNOWN
        held = self._copies.held
        self._copies_at[target] = common(self._copies_at.get(target, held), held)

    def _hand_on(self, target: int) -> None:
        """Note what parameters hold where code leads to ``target``."""
        if self._told:
            self._handed.update(dict.fromkeys(self._copies.handed(target)))

    def _call(self, instruction: Instruction) -> None:
        if instruction.op_count and instruction.op0_kind == OpKind.NEAR_BRANCH64:
            target = instruction.near_branch_target
            if target == instruction.next_ip and self._stack.pointer is not None:
                self._stack = Stack(self._stack.pointer + 8, self._stack.base)
            else:
                self._calls[target] = None
                self._hand_on(target)
            if self._code.address < target < self._end and target != instruction.next_ip:
                self._in_doubt(f"calls into itself at {instruction.ip:#x}")
        elif instruction.is_ip_rel_memory_operand:
            self._call_slots[instruction.ip_rel_memory_address] = None
            self._hand_on(instruction.ip_rel_memory_address)
        elif instruction.op_count:
            self._in_doubt(f"calls through a pointer at {instruction.ip:#x}")
        else:
            self._in_doubt(f"makes a system call at {instruction.ip:#x}")
