"""What x86-64 code calls, and whether it looks at return addresses.

The code is decoded from its first instruction to its end. That this meets every
instruction that runs is shown by its branches: each leads to the start of one. Where
one does not, or bytes are none, only what control flow reaches counts
(`lbtrace.machine.x86_64.reached_instructions`). Where a branch is computed, what the code does is
in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register

from lbtrace.machine.code import Code, Reach
from lbtrace.machine.code_scan import find_walkers
from lbtrace.machine.x86_64 import code_sweep
from lbtrace.machine.x86_64.reached_instructions import reached_instructions
from lbtrace.machine.x86_64.sweep import Sweep

_SWEEPS, _SMALL = 8, 2048
_FRAME_POINTER = (Register.RBP, Register.EBP, Register.BP)
_NOWHERE = 1 << 64
_LOOP, _ALIGNED = 512, 16
"""Bytes after a place in which jumps back are looked for, and at multiples of which functions and
loops begin."""
_PADDING = (Mnemonic.NOP, Mnemonic.INT3)
_JUMPS = (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH)
_CALLS = (FlowControl.CALL, FlowControl.INDIRECT_CALL)
_ENDS = (FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH)
_TOLD = 512
"""Bytes of code whose parameters are followed, unless only what control flow reaches is read."""


def reach(code: Code, depth: int | None) -> Reach:
    """See `lbtrace.machine.Machine.find_reach`."""
    found = code_sweep.reach(code, depth)
    return decoded_reach(code, depth, told=len(code.code) <= _TOLD) if found is None else found


def decoded_reach(code: Code, depth: int | None, *, told: bool = False) -> Reach:
    """Return the same, of any code: by iced-x86, which takes fifty times as long."""
    sweep, whole = Sweep(code, depth, told=told), True
    instructions: Iterable[Instruction] = _InARow(code)
    sweep.run(instructions)
    why = sweep.fails
    if why:
        told = True
        instructions, whole = reached_instructions(code)
        sweep = Sweep(code, depth, told=told, follows=True)
        sweep.run(instructions)
    keeps, sweeps = sweep.found().keeps, 1
    most = _SWEEPS if len(code.code) <= _SMALL else 2
    while sweep.may_find_more and sweeps < most:
        sweep = Sweep(code, depth, sweep, told=told, follows=bool(why))
        sweep.run(instructions)
        keeps |= sweep.found().keeps
        sweeps += 1
    found, whole = sweep.found(), whole and not (why and sweep.differs)
    return found._replace(doubt=why or found.doubt, keeps=keeps, unread=not whole)


def walkers(code: memoryview, address: int, following: Callable[[int], int]) -> Iterator[int]:
    """See `lbtrace.machine.Machine.find_walkers`."""
    for start, at, apart in find_walkers(code, _read):
        end = following(address + start)
        if address + at < end and not (apart and end >= _NOWHERE and not _goes_on(code, start, at)):
            yield address + start


def _goes_on(code: memoryview, start: int, at: int) -> bool:
    """Whether all code from ``start`` to ``at`` is of one function: jumps lead across each gap
    after which aligned code begins, as into a loop."""
    jumps, begins = list[tuple[int, int]](), list[int]()
    after, padded = FlowControl.NEXT, False
    for instruction in Decoder(64, bytes(code[start : at + _LOOP]), ip=start):
        if instruction.mnemonic in _PADDING:
            padded = True
            continue
        apart = after in _ENDS or (padded and after in _CALLS)  # it may not return
        if apart and instruction.ip <= at and not instruction.ip % _ALIGNED:
            begins.append(instruction.ip)
        after, padded = instruction.flow_control, False
        if after in _JUMPS and instruction.op0_kind == OpKind.NEAR_BRANCH64:
            jumps.append((instruction.ip, instruction.near_branch_target))
    return all(any(min(jump) < begin <= max(jump) for jump in jumps) for begin in begins)


def _read(code: bytes) -> tuple[int, bool]:
    """The size of the instruction with which ``code`` begins, 0 of none, and whether it leaves rbp
    as it is."""
    instruction = Decoder(64, code).decode()
    if instruction.is_invalid:
        return 0, False
    writes = instruction.op_count and instruction.op0_kind == OpKind.REGISTER
    return instruction.len, not (writes and instruction.op0_register in _FRAME_POINTER)


class _InARow(Iterable[Instruction]):
    """The instructions of code, each decoded again every time."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def __iter__(self) -> Iterator[Instruction]:
        return iter(Decoder(64, self._code.code, ip=self._code.address))
