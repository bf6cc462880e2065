"""Whether x86-64 code switches stacks by itself, as libraries of fibers do in assembly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import StackSwitch
from lbtrace.machine.code_scan import find_stack_loads, find_stack_moves
from lbtrace.machine.held_values import Value
from lbtrace.machine.x86_64.frame_values import (
    AROUND,
    LONGEST,
    FrameValues,
    is_instruction,
    values_before,
)
from lbtrace.machine.x86_64.incoming_words import is_frame_load, loads_incoming
from lbtrace.machine.x86_64.kept_pointers import (
    copies_stack,
    fetch_pointer,
    moves_on,
    points_to,
    sets_stack,
)
from lbtrace.machine.x86_64.own_pointers import restores_pointer, restores_room
from lbtrace.machine.x86_64.stack_calls import comes_back, is_kept
from lbtrace.machine.x86_64.stack_setters import (
    SHIFTS,
    STRAIGHT,
    loads,
    may_be_switch,
    may_set_stack,
    moves_both,
    new_value,
    shifts,
    source_of,
)
from lbtrace.model import Fetch

LARGEST = 1 << 22
"""Bytes of a function of which it is known where instructions are, at most."""

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

FARTHEST = 1 << 16
"""Bytes of code that are read up to what looks like a switch, at most."""

INTERRUPTED = 5
"""Words that IRETQ pops: Intel SDM volume 2."""

_FRAME = frozenset({Register.RSP, Register.RBP})
_RUNTIME = frozenset(range(Register.R12, Register.R15 + 1))
"""Where runtimes keep what belongs to a thread: OCaml's r14 has the stack of a handler."""
_SAVED = frozenset({Register.RBX, *_FRAME, *_RUNTIME})
"""Where compilers keep the stack pointer of arrays of variable length."""

_PREFIXES = b"\x64\x65\x66\xf2\xf3"
"""Those of what is relative to fs or gs, and of movq and popcnt: native code does not look at
them."""
_LEAVES = frozenset({FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL})
_ENDS = frozenset(
    {FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH}
)
_BRANCHES = frozenset({FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH})
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_PASSES = frozenset(
    {
        *(FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH),
        *(FlowControl.CALL, FlowControl.INDIRECT_CALL),
    }
)
_KEEP_FRAME = frozenset({Mnemonic.PUSH, Mnemonic.CMP, Mnemonic.TEST, Mnemonic.ADD, Mnemonic.SUB})


def stack_switches(
    code: memoryview, address: int, start_of: Callable[[int], int | None]
) -> Iterator[StackSwitch]:
    """See `lbtrace.machine.interface.StackSwitches`.

    There rsp is set from memory or from another register, and code follows that
    restores registers and leaves. A function's code, which is read from its start, may show that it
    only restores what rsp was. Where that start is not known, the usual registers count.
    Whether control flow leads there is for `lbtrace.machine.sites` to decide.
    """
    found = set[int]()
    for switch in _switches(_Search(code, address, start_of), code):
        if switch.address not in found:
            found.add(switch.address)
            yield switch


def _switches(search: _Search, code: memoryview) -> Iterator[StackSwitch]:
    for at in find_stack_loads(code):
        yield from search.loaded(at)
    for at in find_stack_moves(code):
        yield from search.moved(at)
        if at and code[at - 1] in _PREFIXES:
            yield from search.moved(at - 1)


class _Search:
    def __init__(
        self, code: memoryview, address: int, start_of: Callable[[int], int | None]
    ) -> None:
        self._code = code
        self._address = address
        self._start_of = start_of

    def loaded(self, at: int) -> Iterator[StackSwitch]:
        """Yield the switch by a plain load or an exchange at ``at`` in the code, if it is one."""
        line = self._decoder(at)
        first = line.decode()
        if not loads(first) or self._is_data(first.ip):
            return
        leaves, jump = _leads_away(line)
        if leaves:
            taken = self._takes_up(first)
        else:
            taken = self._is_foreign(first) and self._goes_on(first)
        if not taken:
            taken, leaves = self._comes_back(first), FlowControl.INDIRECT_CALL
        if taken and not (leaves == FlowControl.RETURN and self._restores(first)):
            yield self._switch(first, first, leaves, jump)

    def moved(self, at: int) -> Iterator[StackSwitch]:
        """Yield the switch by other means that begins at ``at`` in the code, if one does."""
        line = self._decoder(at)
        first = line.decode()
        if moves_both(first, self._decoder(at + first.len).decode()):
            if self._value(first) is not None:
                yield StackSwitch(first.ip, None, resumes=False)
            return
        if first.mnemonic == Mnemonic.IRETQ:
            if any(values.pushed >= INTERRUPTED for values in self._values(first)):
                yield StackSwitch(first.ip, None, self._keeps(first))
            return
        if not may_set_stack(first):
            return
        by_frame = first.op0_register == Register.RBP
        taken = _frame_taken(line) if by_frame else first
        if taken is None:
            return
        after = line.ip
        leaves, jump = _leads_away(line)
        if leaves is None and first.mnemonic not in STRAIGHT and self._goes_on(first, after):
            leaves = FlowControl.RETURN
        value = self._value(first) if leaves is not None else None
        if value is not None and leaves is not None and may_be_switch(first, value, leaves):
            if leaves != FlowControl.RETURN or not self._restores(first):
                found = self._switch(first, taken, leaves, jump)
                calls = leaves == FlowControl.INDIRECT_CALL
                if not calls or value == Value.ARGUMENT or _returns(found):
                    yield found
        elif first.mnemonic not in STRAIGHT and self._comes_back(taken):
            yield self._switch(first, taken, FlowControl.INDIRECT_CALL, jump)

    def _switch(
        self, first: Instruction, taken: Instruction, leaves: int | None, jump: int
    ) -> StackSwitch:
        """The switch that ``first`` prepares, and in which rsp is ``taken``."""
        resumes = leaves != FlowControl.INDIRECT_CALL
        back = comes_back(taken, self._code_from, most=LOOK_AHEAD)
        if first.mnemonic in SHIFTS:
            resumes = _restores_registers(self._decoder(taken.next_ip - self._address))
        pointer = fetch_pointer(taken) if back else self._pointer(taken)
        return StackSwitch(taken.ip, pointer, self._keeps(taken), resumes, jump, back)

    def _comes_back(self, switch: Instruction) -> bool:
        """Whether code keeps rsp, sets it to anything, calls something, and sets it to that again.
        The new one may come from the frame: from a struct that another function has filled."""
        start, back = self._start(switch.ip), comes_back(switch, self._code_from, most=LOOK_AHEAD)
        if start is None or back is None:
            return False
        code = bytes(self._code[start - self._address : switch.ip - self._address])
        return is_kept(back.pointer, Decoder(64, code, ip=start))

    def _restores(self, instruction: Instruction) -> bool:
        """Whether the code before an instruction saved what that sets rsp to."""
        if instruction.mnemonic == Mnemonic.SUB:
            ahead = self._decoder(instruction.next_ip - self._address)
            back = next(filter(shifts, islice(ahead, LOOK_AHEAD)), None)
            return back is not None and restores_room(self._code, self._address, back)
        if instruction.mnemonic in SHIFTS:
            return restores_room(self._code, self._address, instruction)
        return restores_pointer(self._code, self._address, instruction)

    def _code_from(self, address: int) -> Decoder:
        return self._decoder(max(address - self._address, 0))

    def _decoder(self, at: int) -> Decoder:
        code = bytes(self._code[at : at + LOOK_AHEAD * LONGEST])
        return Decoder(64, code, ip=self._address + at)

    def _takes_up(self, instruction: Instruction) -> bool:
        """Whether a load of rsp does not restore it."""
        source = source_of(instruction)
        saved = instruction.mnemonic != Mnemonic.XCHG and source in _SAVED
        if self._start(instruction.ip) is None:
            return not saved
        if source in _FRAME:  # what the frame keeps is its own, if nothing else was put there
            return self._is_foreign(instruction)
        value = self._value(instruction)
        if value is None or not saved:
            return value is not None and value != Value.OWN
        runtime = value == Value.UNKNOWN and instruction.memory_base in _RUNTIME
        return value <= Value.ARGUMENT or runtime

    def _is_foreign(self, instruction: Instruction) -> bool:
        """Whether a load of rsp sets it to what its function got from elsewhere."""
        value = self._value(instruction)
        if value is None:
            return self._start(instruction.ip) is None and source_of(instruction) not in _SAVED
        reached = value != Value.UNKNOWN or source_of(instruction) in _SAVED
        return value <= Value.ARGUMENT or not reached

    def _goes_on(self, switch: Instruction, start: int = 0) -> bool:
        """Whether code after a switch, from ``start`` on, leaves by a return or a computed jump,
        also by way of jumps, branches and calls; or comes back from a call."""
        ahead, seen, called = [start or switch.next_ip], set[int](), False
        while ahead and len(seen) < LOOK_AHEAD:
            place = ahead.pop() - self._address
            if not 0 <= place < len(self._code):
                continue
            for instruction in self._decoder(place):
                flow = instruction.flow_control
                if instruction.ip in seen or len(seen) >= LOOK_AHEAD or instruction.is_invalid:
                    break
                seen.add(instruction.ip)
                if flow in _LEAVES and flow != FlowControl.INDIRECT_CALL:
                    return True
                if sets_stack(instruction):
                    if called and (value := self._value(switch)) is not None:
                        return value <= Value.ARGUMENT
                    break
                called |= flow in _CALLS
                if flow in _BRANCHES and instruction.op0_kind == OpKind.NEAR_BRANCH64:
                    ahead.append(instruction.near_branch_target)
                if flow not in _PASSES:
                    break
        return False

    def _value(self, instruction: Instruction) -> Value | None:
        """What an instruction sets rsp or rbp to; None where the function is not seen to have an
        instruction there, or its start is not known."""
        value = None
        for values in self._values(instruction):
            value = new_value(values, instruction)
            if value == Value.OWN:
                break
        incoming = value == Value.OWN and self._is_incoming(instruction)
        return Value.FOREIGN if incoming else value

    def _is_incoming(self, instruction: Instruction) -> bool:
        """Whether an instruction takes what its function's caller passes on the stack."""
        start = self._start(instruction.ip)
        if start is None or not is_frame_load(instruction):
            return False
        code = bytes(self._code[start - self._address : instruction.next_ip - self._address])
        return loads_incoming(code, start, instruction.ip)

    def _values(self, instruction: Instruction) -> Iterator[FrameValues]:
        """What registers hold before an instruction, see `values_before`."""
        at, start = instruction.ip, self._start(instruction.ip)
        if start is not None:
            code = bytes(self._code[start - self._address : at - self._address + AROUND])
            yield from values_before(code, start, at)

    def _keeps(self, switch: Instruction) -> bool:
        """Whether its function may keep the present stack pointer before a switch."""
        start = self._start(switch.ip)
        if start is None:
            return True
        code = bytes(self._code[start - self._address : switch.next_ip - self._address])
        calls = _calls(self._decoder(switch.next_ip - self._address))
        return any(
            copies_stack(each, calls=calls) and not points_to(each, switch)
            for each in Decoder(64, code, ip=start)
        )

    def _pointer(self, switch: Instruction) -> Fetch | None:
        """What fetches the new stack pointer, None also where the present one is moved after it is
        kept: then a stack would not be known again by it."""
        start, kept, moved = self._start(switch.ip), False, False
        if start is not None:
            code = bytes(self._code[start - self._address : switch.ip - self._address])
            for each in Decoder(64, code, ip=start):
                copies = copies_stack(each, calls=False)
                kept = copies or (kept and each.flow_control not in _ENDS)
                moved = kept and not copies and (moved or moves_on(each))
        return None if moved else fetch_pointer(switch)

    def _start(self, at: int) -> int | None:
        """Where the function around ``at`` begins, if it is known and near enough."""
        start = self._start_of(at)
        near = start is not None and self._address <= start <= at <= start + FARTHEST
        return start if near else None

    def _is_data(self, at: int) -> bool:
        """Whether ``at`` is far into a function that has no instruction there."""
        start = self._start_of(at)
        if start is None or not FARTHEST < at - start < LARGEST or start < self._address:
            return False
        code = bytes(self._code[start - self._address : at - self._address + LONGEST])
        return not is_instruction(code, at - start)


def _leads_away(line: Decoder) -> tuple[int | None, int]:
    """By what control flow the code leaves that follows on a switch, None where it goes on; and
    where it jumps, if it does."""
    for _, instruction in zip(range(LOOK_AHEAD), line, strict=False):
        flow: int = instruction.flow_control
        if flow in _LEAVES:
            return flow, instruction.ip if flow == FlowControl.INDIRECT_BRANCH else 0
        if flow != FlowControl.NEXT or instruction.is_invalid or sets_stack(instruction):
            break
    return None, 0


def _restores_registers(line: Decoder) -> bool:
    """Whether code restores registers before it leaves, and puts nothing on the stack, as it does
    which passes over its arguments."""
    pops = False
    for _, instruction in zip(range(LOOK_AHEAD), line, strict=False):
        if instruction.flow_control != FlowControl.NEXT:
            break
        if instruction.mnemonic == Mnemonic.PUSH:
            return False
        pops |= instruction.mnemonic == Mnemonic.POP or _is_restored(instruction)
    return pops


def _is_restored(instruction: Instruction) -> bool:
    """Whether a register that calls preserve is loaded from the stack."""
    to, loads = instruction.op0_register, instruction.mnemonic == Mnemonic.MOV
    return loads and to in _SAVED and instruction.memory_base == Register.RSP


def _returns(switch: StackSwitch) -> bool:
    """Whether code is called on another stack, and comes back to the present one. libffi calls
    functions on memory that its caller reserved on the stack, and keeps nothing."""
    return switch.keeps and switch.back is not None


def _frame_taken(line: Decoder) -> Instruction | None:
    """What sets rsp to what rbp holds, before anything else happens to either."""
    for _, instruction in zip(range(LOOK_AHEAD), line, strict=False):
        if instruction.flow_control != FlowControl.NEXT or instruction.is_invalid:
            return None
        if sets_stack(instruction):
            source = instruction.op1_register or instruction.memory_base
            taken = instruction.mnemonic == Mnemonic.LEAVE or source == Register.RBP
            return instruction if taken else None
        if instruction.op0_register == Register.RBP and instruction.mnemonic not in _KEEP_FRAME:
            return None
    return None


def _calls(line: Decoder) -> bool:
    """Whether code goes straight on to a call."""
    for _, instruction in zip(range(LOOK_AHEAD), line, strict=False):
        if instruction.flow_control != FlowControl.NEXT:
            return instruction.flow_control in _CALLS
    return False
