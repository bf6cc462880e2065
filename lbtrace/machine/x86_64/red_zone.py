"""Whether an x86-64 function may keep something below its stack pointer, in the red zone (psABI
3.2.2), where a call that a kernel puts in the place of a nop writes.

All code of the function that control flow reaches is followed with what its registers hold of the
stack's addresses. An address below the stack pointer, computed or used anywhere, is a sign of it.
Compilers keep nothing there in a function that calls others (gcc: ``ix86_using_red_zone`` and
``crtl->is_leaf``; LLVM: ``X86FrameLowering::emitPrologue``). So only there it is taken that an
indexed address, or one that differs by way, lies in the object it was derived from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from iced_x86 import (
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
)

from lbtrace.machine.x86_64.operands import WRITES
from lbtrace.machine.x86_64.reached_code import FollowedCode

MOST = 20_000
"""Instructions of a function that are followed."""

_ROUNDS = 16
"""How often a loop changes what is known, at most, times the number of instructions."""

_FARTHER = 1 << 40
"""Added to the depth of the stack pointer once it was moved down by an unknown amount."""

_UNKNOWN = -1 << 62
"""The depth of an address of the stack of which nothing else is known."""

_SEGMENTS = frozenset({Register.FS, Register.GS})
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_CALLER_SAVED = frozenset(
    {
        *(Register.RAX, Register.RCX, Register.RDX, Register.RSI, Register.RDI),
        *(Register.R8, Register.R9, Register.R10, Register.R11),
    }
)
_IMMEDIATES = frozenset({OpKind.IMMEDIATE8TO64, OpKind.IMMEDIATE32TO64})

_ONLY_WRITES = frozenset({OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.NONE})
_ALWAYS = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE})

State: TypeAlias = dict[int, int]
"""The depths of registers that hold addresses of the stack: bytes by which these lie below the
stack pointer at entry."""


class _InUseError(Exception):
    """Something may be kept below the stack pointer; the message says why."""


def why_in_use(flow: FollowedCode, address: int, pads: Sequence[int] = ()) -> str:
    """Return why something may be kept below the stack pointer where the code of a function is at
    ``address``, as a clause; empty where nothing is."""
    try:
        _Search(flow, pads).run(address)
    except _InUseError as error:
        return str(error)
    return ""


class _Search:
    def __init__(self, flow: FollowedCode, pads: Sequence[int]) -> None:
        if flow.hidden or any(out.computed for out in flow.outs.values()):
            raise _InUseError("not all code of the function is known")
        if len(flow.instructions) > MOST:
            raise _InUseError("the function is too long to be followed")
        self._flow = flow
        self._info = InstructionInfoFactory()
        self._calls = any(self._leaves(each) for each in flow.instructions.values())
        self._following = _following(flow)
        self._pads = [pad for pad in pads if pad in flow.instructions]
        self._states: dict[int, State] = {flow.start: {Register.RSP: 0}}
        self._bounds: dict[int, int] = {}

    def run(self, address: int) -> None:
        """Follow all code. Raises `_InUseError`."""
        if address not in self._flow.instructions:
            raise _InUseError("no code is seen to lead there")
        ahead = [self._flow.start]
        budget = _ROUNDS * len(self._flow.instructions)
        while ahead:
            budget -= 1
            if budget < 0:
                raise _InUseError("the function is too long to be followed")
            ip = ahead.pop()
            instruction = self._flow.instructions[ip]
            after = self._step(instruction, self._states[ip])
            for following in self._following.get(ip, ()):
                state = after
                if instruction.flow_control in _CALLS and following != instruction.next_ip:
                    state = after | {Register.RSP: after[Register.RSP] + 8}
                if self._meet(following, state):
                    ahead.append(following)
            if instruction.flow_control in _CALLS:
                ahead += [pad for pad in self._pads if self._meet(pad, after)]
        if address not in self._states:
            raise _InUseError("no code is seen to lead there")
        for ip, state in self._states.items():  # once more, as the bounds have changed meanwhile
            self._step(self._flow.instructions[ip], state)

    def _leaves(self, instruction: Instruction) -> bool:
        """Whether it calls another function."""
        if instruction.flow_control == FlowControl.CALL:
            return instruction.near_branch_target not in self._flow.instructions
        return bool(instruction.flow_control == FlowControl.INDIRECT_CALL)

    def _meet(self, ip: int, state: State) -> bool:
        """Note what is known where code is reached; return whether that is new."""
        known = self._states.get(ip)
        if known is None:
            self._states[ip] = state
            return True
        met = {
            register: _same(known.get(register), state.get(register))
            for register in known.keys() | state.keys()
        }
        if met == known:
            return False
        if met[Register.RSP] == _UNKNOWN:
            raise _InUseError(f"the depth of the stack at {ip:#x} differs")
        self._states[ip] = met
        return True

    def _step(self, instruction: Instruction, before: State) -> State:
        """Return what is known after an instruction. Raises `_InUseError`."""
        for depth in self._accessed(instruction, before):
            self._check(instruction, depth, before)
        if not self._calls and _puts_away(instruction, before):
            raise _InUseError(f"an address of the stack is put away at {instruction.ip:#x}")
        after = dict(before)
        for register, held in self._written(instruction, before):
            after.pop(register, None)
            if held is not None:
                after[register] = held
        if after.get(Register.RSP, _UNKNOWN) == _UNKNOWN:
            raise _InUseError(f"the stack pointer is not known after {instruction.ip:#x}")
        return after

    def _check(self, instruction: Instruction, depth: int, state: State) -> None:
        """Raise `_InUseError` unless an address lies at the stack pointer or above."""
        if depth == _UNKNOWN:
            if self._calls:
                return
            raise _InUseError(f"which part of the stack is meant at {instruction.ip:#x} is unknown")
        level, pointer = _level(depth), state[Register.RSP]
        if depth > (pointer if level >= _level(pointer) else self._bounds[level]):
            raise _InUseError(f"something is kept below the stack pointer ({instruction.ip:#x})")

    def _accessed(self, instruction: Instruction, state: State) -> Iterator[int]:
        """The depths of what an instruction reads, writes or takes the address of, but for what it
        pushes and pops."""
        if instruction.mnemonic == Mnemonic.LEA:
            if instruction.op0_register != Register.RSP:
                yield from _addresses(instruction, state)
        elif _has_memory(instruction):
            if instruction.mnemonic != Mnemonic.NOP:
                yield from _addresses(instruction, state)
        elif not instruction.is_stack_instruction:  # those of strings
            for memory in self._info.info(instruction).used_memory():
                if memory.base in state:
                    yield state[memory.base]

    def _written(self, instruction: Instruction, state: State) -> Iterator[tuple[int, int | None]]:
        """The registers that an instruction writes, and the depths of what they hold then."""
        if instruction.flow_control in _CALLS:
            yield from ((register, None) for register in _CALLER_SAVED)
            return
        moves = instruction.is_stack_instruction
        if moves:
            yield Register.RSP, _moved(instruction, state)
        used = [*self._info.info(instruction).used_registers()]
        derives = any(
            RegisterExt.full_register(each.register) in state and each.access not in _ONLY_WRITES
            for each in used
        )
        for each in used:
            register = RegisterExt.full_register(each.register)
            if each.access not in WRITES or not Register.RAX <= register <= Register.R15:
                continue
            if moves:
                if register != Register.RSP:
                    yield register, None  # it was loaded
            elif each.register == register == instruction.op0_register and each.access in _ALWAYS:
                yield register, self._result(instruction, state)
            else:
                yield register, _UNKNOWN if derives else None

    def _result(self, instruction: Instruction, state: State) -> int | None:
        """The depth of what an instruction leaves in its first operand, a whole register."""
        mnemonic, register = instruction.mnemonic, instruction.op0_register
        if mnemonic == Mnemonic.LEA:
            *_, depth = (None, *_addresses(instruction, state))
            return depth
        kind = instruction.op1_kind if instruction.op_count > 1 else OpKind.MEMORY
        other = state.get(instruction.op1_register) if kind == OpKind.REGISTER else None
        if mnemonic == Mnemonic.MOV:
            return other
        own = state.get(register)
        if own is not None and kind in _IMMEDIATES and mnemonic in (Mnemonic.ADD, Mnemonic.SUB):
            amount = _signed(instruction.immediate(1))
            return (
                own if own == _UNKNOWN else own + (amount if mnemonic == Mnemonic.SUB else -amount)
            )
        if register == Register.RSP and mnemonic in (Mnemonic.AND, Mnemonic.SUB):
            return self._lower(state[Register.RSP])
        return None if own is None and other is None else _UNKNOWN

    def _lower(self, pointer: int) -> int:
        """A depth for the stack pointer that is moved down by what is not known."""
        level = _level(pointer)
        self._bounds[level] = min(pointer, self._bounds.get(level, pointer))
        return (level + 1) * _FARTHER


def _following(flow: FollowedCode) -> dict[int, list[int]]:
    """What each instruction continues to, or jumps to."""
    found: dict[int, list[int]] = {}
    for ip in flow.instructions:
        if (before := flow.before.get(ip)) is not None:
            found.setdefault(before, []).append(ip)
        for source in flow.sources.get(ip, ()):
            # computed jumps to the same places meet
            for each in flow.sources.get(source, ()) if source < 0 else (source,):
                found.setdefault(each, []).append(ip)
    return found


def _addresses(instruction: Instruction, state: State) -> Iterator[int]:
    """The depths of the memory of an instruction, as far as that is on the stack: where it is
    indexed, where it begins, and that it is unknown."""
    if instruction.segment_prefix in _SEGMENTS:
        return
    base, index = instruction.memory_base, instruction.memory_index
    depth = state.get(base)
    if depth is not None:
        yield depth if depth == _UNKNOWN else depth - _signed(instruction.memory_displacement)
    if index in state or (depth is not None and index != Register.NONE):
        yield _UNKNOWN


def _moved(instruction: Instruction, state: State) -> int | None:
    """The depth of the stack pointer after an instruction that pushes or pops."""
    pointer: int = state[Register.RSP]
    if instruction.mnemonic == Mnemonic.LEAVE:
        pointer = state.get(Register.RBP, _UNKNOWN)
        return None if pointer == _UNKNOWN else pointer - 8
    if instruction.mnemonic == Mnemonic.ENTER or (
        instruction.mnemonic == Mnemonic.POP and instruction.op0_register == Register.RSP
    ):
        return None
    return pointer - int(instruction.stack_pointer_increment)


def _puts_away(instruction: Instruction, state: State) -> bool:
    """Whether an instruction stores an address of the stack where it is not followed."""
    if instruction.mnemonic in (Mnemonic.CMP, Mnemonic.TEST):
        return False
    stored = (
        instruction.op_register(number)
        for number in range(instruction.op_count)
        if instruction.op_kind(number) == OpKind.REGISTER
    )
    into = instruction.op0_register if instruction.op0_kind == OpKind.REGISTER else Register.NONE
    followed = Register.RAX <= into <= Register.R15 and instruction.mnemonic != Mnemonic.PUSH
    return not followed and any(RegisterExt.full_register(each) in state for each in stored)


def _has_memory(instruction: Instruction) -> bool:
    return OpKind.MEMORY in map(instruction.op_kind, range(instruction.op_count))


def _same(one: int | None, other: int | None) -> int:
    return _UNKNOWN if one is None or one != other else one


def _level(depth: int) -> int:
    """How often the stack pointer had been moved by an unknown amount."""
    return (depth + _FARTHER // 2) // _FARTHER


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
