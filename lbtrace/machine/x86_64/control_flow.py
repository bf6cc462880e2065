"""The instructions of an x86-64 function that control flow reaches, and how it leaves them.

The code is followed from its first instruction along every direct jump, and
along those through tables where `lbtrace.machine.x86_64.jump_targets` finds where they lead. What
is not reached so is data: a function may hold tables and constants. Nothing is followed after a
call that never returns, nor after a call of a place in the same function, which may be there for
the address it pushes only.
"""

from __future__ import annotations

from collections.abc import Sequence

from iced_x86 import FlowControl, Instruction, Mnemonic, OpKind

from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around
from lbtrace.machine.x86_64.branches import test
from lbtrace.machine.x86_64.computed_jumps import ComputedJumps
from lbtrace.machine.x86_64.instructions import CALL, GAP, MARKS, NOP, STACK
from lbtrace.machine.x86_64.reached_code import Out, ReachedCode, WorkItem
from lbtrace.machine.x86_64.stack_depth import ENTRY, UNKNOWN, Stack

TRAP = "what follows the trap at "

GOES_ON = frozenset({FlowControl.NEXT, FlowControl.CALL, FlowControl.INDIRECT_CALL})
_BRANCHES_OFF = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.XBEGIN_XABORT_XEND})
JUMPS = _BRANCHES_OFF | {FlowControl.UNCONDITIONAL_BRANCH}
_TRANSACTIONS = frozenset({Mnemonic.XABORT, Mnemonic.XEND})
TRAPS = frozenset({Mnemonic.INT3, Mnemonic.HLT})
_PADDING = frozenset(b"\xcc\x90\xf4\x00")


class Flow(ReachedCode):
    """The code of a function that is reached from its start, and from ``pads``, at which the
    program may continue after an exception."""

    def __init__(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> None:
        super().__init__(parts, around)
        self._doubtful: list[WorkItem] = []
        self._joins: list[WorkItem] = []
        self._pushed: set[int] = set()
        self._computed = ComputedJumps(self, self._follow)
        self._follow(WorkItem(self.start, ENTRY))
        self.follow_all(len(parts), pads, self._land, self._computed.follow)
        if self._pushed:
            self._judge_returns()
        for ip in self.hidden.keys() & self.instructions.keys():
            if self.hidden[ip].startswith(TRAP):
                del self.hidden[ip]  # it is reached otherwise

    def _land(self, pad: int) -> None:
        """Follow the code from a landing pad on."""
        self.landed.add(pad)
        self._follow(WorkItem(pad, UNKNOWN))

    def _follow(self, way: WorkItem) -> None:
        """Follow the code from ``way`` on."""
        ways = [way]
        while ways or self._doubtful:
            way = ways.pop() if ways else self._doubtful.pop()
            if way.source:
                sources = self.sources.setdefault(way.address, [])
                if way.source not in sources:
                    sources.append(way.source)
            if way.address not in self.instructions:
                self._run(way, ways)
            elif way.source:
                self._joins.append(way)

    def _run(self, way: WorkItem, ways: list[WorkItem]) -> None:
        """Follow one straight line to its end, and note where it branches."""
        part = self.part(way.address)
        if part is None:
            return
        stack, last, called = way.stack, -1, -1
        lines = self.lines
        for first, after in self._line(part, way.address):
            for mark in MARKS.finditer(lines.kinds, first, after):
                at = mark.start()
                kind, instruction = lines.kinds[at], lines.instructions[at]
                if kind == STACK:
                    stack = stack.after(instruction)
                elif kind == NOP:
                    if lines.addresses[at] == called:
                        # Before what is aligned, and is often reached otherwise only.
                        last = self.take(first, at, last)
                        self._doubtful.append(WorkItem(called, stack))
                        self.before[called] = last
                        return
                elif kind == CALL:
                    called = instruction.next_ip
                    if instruction.is_call_near and self._is_inside(instruction):
                        target = instruction.near_branch_target
                        ways.append(WorkItem(target, stack.pushed(8), instruction.ip))
                elif instruction.flow_control != FlowControl.NEXT:
                    self.depths[instruction.ip] = stack
                    self._branch(instruction, stack, ways)
            last = self.take(first, after, last)
        ended = self.instructions.get(last)
        if ended and ended.next_ip in self.instructions and self._goes_on(ended):
            self.before[ended.next_ip] = last

    def _line(self, part: Code, address: int) -> list[tuple[int, int]]:
        """Where the instructions from ``address`` on lie in the lists of `Lines`, up to one that
        does not continue or is known.

        Where that ends in what is no code, the last call does not return.
        """
        line: list[tuple[int, int]] = []
        until_call: list[tuple[int, int]] = []
        called = -1
        lines = self.lines
        first = at = lines.position(part, address)
        while first >= 0:
            at, known = lines.turn(at)
            if known:
                return [*line, (first, at)]
            instruction, kind = lines.instructions[at], lines.kinds[at]
            if kind == GAP:
                line.append((first, at))
                first = at = lines.position(part, instruction.next_ip)
                continue
            if instruction.is_invalid:
                line.append((first, at))
                break
            at += 1
            if kind == CALL:
                called = instruction.next_ip
                until_call = [*line, (first, at)]
            elif instruction.flow_control in _BRANCHES_OFF:
                continue
            elif instruction.mnemonic in TRAPS and instruction.ip != called:
                self._note_trap(part, instruction)
            if instruction.mnemonic in TRAPS or not self._goes_on(instruction):
                return [*line, (first, at)]
        return self._stopped(part, line, until_call)

    def _stopped(
        self, part: Code, line: list[tuple[int, int]], until_call: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The part of a line that is code that runs, which continues to the end of the part or to
        what is no code: up to its last call, or all of it."""
        lines = self.lines
        reached = [at for first, after in line for at in range(first, after)]
        if not reached:
            return line
        end = lines.instructions[reached[-1]].next_ip
        ended = end >= part.address + len(part.code)
        rest = reached[sum(after - first for first, after in until_call) :]
        if until_call and (not ended or all(lines.kinds[at] == NOP for at in rest)):
            return until_call
        how = "continues into what follows it" if ended else "is no code from there on"
        self.hidden[end] = f"the function {how} at {end:#x}"
        return line

    def _goes_on(self, instruction: Instruction) -> bool:
        """Whether the next instruction follows."""
        flow = instruction.flow_control
        if flow == FlowControl.CALL:
            target = instruction.near_branch_target
            if self._is_inside(instruction):
                at = instruction.ip
                self.hidden[at] = f"whether the call at {at:#x} returns is unknown"
                return False
            return not (instruction.is_call_near and self.around.ends(target))
        if flow == FlowControl.INDIRECT_CALL and instruction.is_ip_rel_memory_operand:
            return not self.around.ends(instruction.memory_displacement, pointer=True)
        return flow in GOES_ON or flow in _BRANCHES_OFF

    def _is_inside(self, call: Instruction) -> bool:
        """Whether a call leads to a place within the function."""
        return bool(call.is_call_near and self.is_within(call.near_branch_target))

    def _judge_returns(self) -> None:
        """Take back that returns lead to what was pushed, where other ways to them say
        otherwise: what came there first was no way, as its last call does not return."""
        for way in self._joins:
            ip, stack = way.address, way.stack
            while (instruction := self.instructions.get(ip)) is not None:
                flow = instruction.flow_control
                if flow == FlowControl.RETURN and ip in self._pushed and not stack.pointer:
                    self._pushed.discard(ip)
                    self.hidden.pop(ip, None)
                    self.outs[ip] = Out(instruction, "return")
                if flow not in GOES_ON:
                    break
                if flow == FlowControl.NEXT:
                    stack = stack.after(instruction)
                ip = instruction.next_ip

    def _note_trap(self, part: Code, trap: Instruction) -> None:
        """Follow the code after a trap, at which a debugger may continue."""
        rest = part.code[trap.next_ip - part.address :][:1]
        if rest and rest[0] not in _PADDING and trap.mnemonic == Mnemonic.INT3:
            self.hidden[trap.next_ip] = f"{TRAP}{trap.ip:#x} is unknown"

    def _branch(self, instruction: Instruction, stack: Stack, ways: list[WorkItem]) -> None:
        flow, ip = instruction.flow_control, instruction.ip
        if flow == FlowControl.RETURN:
            if instruction.mnemonic != Mnemonic.RET:
                self.hidden[ip] = f"the return at {ip:#x} is no near return"
            elif stack.pointer:
                self.hidden[ip] = f"the return at {ip:#x} leads to what was pushed"
                self._pushed.add(ip)
            else:
                self.outs[ip] = Out(instruction, "return")
        elif flow == FlowControl.INDIRECT_BRANCH:
            self._computed.stacks[ip] = stack
        elif flow in JUMPS and instruction.mnemonic not in _TRANSACTIONS:
            self._jump(instruction, stack, ways)

    def _jump(self, instruction: Instruction, stack: Stack, ways: list[WorkItem]) -> None:
        ip = instruction.ip
        if instruction.op0_kind != OpKind.NEAR_BRANCH64:
            self.hidden[ip] = f"the jump at {ip:#x} is a far jump"
            return
        target = instruction.near_branch_target
        self.restarts |= target == self.start
        # With nothing on the stack it is a tail call, whatever lies there.
        always = instruction.flow_control == FlowControl.UNCONDITIONAL_BRANCH
        if self.part(target) or (not (always and stack.pointer == 0) and self.knows(target)):
            ways.append(WorkItem(target, stack, ip))
        elif always or instruction.is_jcc_short_or_near or test(instruction):
            self.outs[ip] = Out(instruction, "tail", stack.pointer or 0)
        else:
            self.hidden[ip] = f"no flag says whether the jump at {ip:#x} is taken"
