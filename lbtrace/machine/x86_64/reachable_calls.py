"""What x86-64 code calls, and whether it looks at return addresses.

The code is decoded from its first instruction to its end. That this meets every
instruction that runs is shown by its branches: each leads to the start of one. Where
one does not, or bytes are none, only what control flow reaches counts
(`lbtrace.machine.x86_64.reached_instructions`). Where a branch is computed, what the code does is
in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from iced_x86 import Decoder, FlowControl, Instruction

from lbtrace.machine.code import Code, Reach
from lbtrace.machine.code_scan import find_bytes
from lbtrace.machine.x86_64 import code_sweep
from lbtrace.machine.x86_64.reached_instructions import reached_instructions
from lbtrace.machine.x86_64.sweep import Sweep

_STRAIGHT = FlowControl.NEXT
_SWEEPS, _SMALL = 8, 2048
_TOLD = 512
"""Bytes of code whose parameters are followed, unless only what control flow reaches is read."""
_SAVED, _FRAMED = b"\x55", b"\x48\x89\xe5"
"""``push rbp``, and ``mov rbp, rsp`` at most `_BETWEEN` bytes after it."""
_BETWEEN = 24

_FOLLOWED = re.compile(
    rb"[\s\S]{0,64}?(?:"
    rb"[\x48\x4c]\x8b[\x45\x4d\x55\x5d\x65\x6d\x75\x7d]\x00"  # mov r, [rbp]
    rb"|[\x48\x4c\x49]\x89[\xe8-\xeb\xed-\xef]|\x48\x89\x6d)"  # mov r, rbp; mov [rbp+n], rbp
)
_WALKERS = (96, 256)
"""Bytes of a function in which its frame pointer is followed, if it is: optimised, or not. More
may be of other functions, which hides it."""


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


def walkers(code: memoryview, address: int) -> Iterator[int]:
    """See `lbtrace.machine.Machine.find_walkers`."""
    for at in find_bytes(code, _FRAMED):
        before = bytes(code[max(at - _BETWEEN, 0) : at])
        saved = before.rfind(_SAVED)
        if saved >= 0 and _FOLLOWED.match(code, at + len(_FRAMED)):
            start = at - len(before) + saved
            if _is_straight(before[saved:]) and any(
                reach(_code(code, start, size, address), 0).walks for size in _WALKERS
            ):
                yield address + start


def _code(code: memoryview, start: int, size: int, address: int) -> Code:
    part = bytes(code[start : start + size])
    return Code(part, address + start, 0, address + start + len(part))


def _is_straight(code: bytes) -> bool:
    """Whether ``code`` is instructions of which each leads to the next."""
    return all(i.flow_control == _STRAIGHT and not i.is_invalid for i in Decoder(64, code))


class _InARow(Iterable[Instruction]):
    """The instructions of code, each decoded again every time."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def __iter__(self) -> Iterator[Instruction]:
        return iter(Decoder(64, self._code.code, ip=self._code.address))
