"""Which registers an x86-64 function reads as its caller filled them.

What it passes on, untouched, to a function of the same file that it calls or jumps to, that reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, RegisterExt

from lbtrace.machine.code import Code, Read
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES

_INFO = iced_x86.InstructionInfoFactory()

_READS = frozenset({iced_x86.OpAccess.READ, iced_x86.OpAccess.READ_WRITE})

_FRAME = frozenset({Register.RSP, Register.RBP, Register.RBX})
"""By which a function reaches its frame: by rbx where it aligns that, and its size changes."""

WORD = 8

DEPTH = 4
"""Functions, one passing on to the next, that are followed at most."""

FOLLOWED = 512
"""Bytes of code that are read of each of these, at most."""

FUNCTIONS = 12
"""Pieces of code that are followed, at most."""

Way: TypeAlias = tuple[int, frozenset[str]]
"""An address that is reached, and the registers that nothing has written before."""


def entry_reads(code: Code, registers: Collection[str], read: Read | None) -> frozenset[str]:
    """See `lbtrace.machine.Machine.find_entry_reads`."""
    walk = _Walk(registers)
    away = walk.follow(code, (code.address, walk.left))
    followed = 0
    for _ in range(DEPTH if read else 0):
        further: list[Way] = []
        for at, kept in away:
            if not kept & walk.left or followed == FUNCTIONS:
                continue
            followed += 1
            assert read is not None
            piece = Code(read(at, FOLLOWED), at, 0, at + FOLLOWED)
            further += walk.follow(piece, (at, kept), saves=True)
        away = further
    return frozenset(registers) - walk.left


class _Walk:
    """Follows code, until nothing is ``left`` that was not read."""

    def __init__(self, registers: Collection[str]) -> None:
        self.left = frozenset(registers)
        self._seen: dict[int, frozenset[str]] = {}

    def follow(self, code: Code, way: Way, *, saves: bool = False) -> Sequence[Way]:
        """Follow the ``code`` on its ``way``, and return the ways that lead out of it. Of what
        ``saves`` registers in its frame it is not known whether something is passed in these: a
        variadic function saves all, as does what preserves them for its caller, each as a whole."""
        decoder = Decoder(64, code.code, ip=code.address)
        ways, away = [way], list[Way]()
        while ways and self.left:
            at, kept = ways.pop()
            kept -= self._seen.get(at, frozenset())
            while kept & self.left:
                if not code.address <= at < code.address + len(code.code):
                    away.append((at, kept))
                    break
                if kept <= self._seen.get(at, frozenset()):
                    break
                self._seen[at] = self._seen.get(at, frozenset()) | kept
                decoder.ip, decoder.position = at, at - code.address
                instruction = decoder.decode()
                flow, at = instruction.flow_control, instruction.next_ip
                used = [
                    (REGISTERS.get(RegisterExt.full_register(each.register), ""), each.access)
                    for each in _INFO.info(instruction).used_registers()
                ]
                # What is pushed may be there to align the stack.
                if instruction.mnemonic != Mnemonic.PUSH and not (saves and _is_save(instruction)):
                    read = {name for name, access in used if access in _READS}
                    self.left -= read & kept
                kept -= {name for name, access in used if access in WRITES}
                direct = instruction.op_count and instruction.op0_kind == OpKind.NEAR_BRANCH64
                if flow == FlowControl.CONDITIONAL_BRANCH:
                    ways.append((instruction.near_branch_target, kept))
                elif flow == FlowControl.UNCONDITIONAL_BRANCH and direct:
                    at = instruction.near_branch_target
                elif flow != FlowControl.NEXT:
                    if flow == FlowControl.CALL and direct:
                        away.append((instruction.near_branch_target, kept))
                    break  # calls change all registers in which something is passed
        return away


def _is_save(instruction: Instruction) -> bool:
    """Whether an instruction stores a whole register in a frame."""
    if instruction.mnemonic != Mnemonic.MOV or instruction.op0_kind != OpKind.MEMORY:
        return False
    whole = RegisterExt.size(instruction.op1_register) == WORD
    return whole and instruction.memory_base in _FRAME
