"""The instructions of x86-64 code that control flow reaches, where bytes among them are none.

Hand-written code has constants after its returns and jumps, and a symbol may claim more than is
the function's: decoding one instruction after the other ends there, or loses its step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind

from lbtrace.machine.code import Code

_ENDS = frozenset(
    {
        *(FlowControl.RETURN, FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH),
        FlowControl.EXCEPTION,
    }
)
_CLOSED = _ENDS | {FlowControl.CALL, FlowControl.INDIRECT_CALL}
_PREFIXES = tuple(bytes([each]) for each in b"\xf0\xf2\xf3\x66\x2e\x3e")
"""Of which jumps pass over: LOCK, as in glibc, and others."""
_PADDING = frozenset({Mnemonic.NOP, Mnemonic.INT3})


class Reached(NamedTuple):
    """Instructions in the order in which control flow leads to them; ``whole`` says that no other
    may run."""

    instructions: list[Instruction]
    whole: bool


def reached_instructions(code: Code) -> Reached:
    """Return the instructions to which control flow leads from the first one on.

    What it does not lead to counts as well where all of it is instructions: code may continue there
    after exceptions, or by computed jumps. Bytes that are none are data, unless a jump is computed.
    """
    followed = _Followed(code)
    followed.follow(code.address)
    if followed.computes:
        for label in followed.labels:
            followed.follow(label)
    unread = False
    while True:
        gaps = [gap for gap in followed.gaps() if not followed.is_padding(gap)]
        more = [gap.start for gap in gaps if followed.is_code(gap)]
        for start in more:
            followed.follow(start)
        if not more:
            unread = bool(gaps)
            break
    whole = not followed.fails and not followed.overlaps() and not (unread and followed.computes)
    return Reached([*followed.instructions.values()], whole)


class _Followed:
    """``computes`` says that a jump was met whose targets are not known, ``fails`` that control
    flow leads to what is no instruction; ``labels`` are the addresses within that it takes."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._end = code.address + len(code.code)
        self.instructions: dict[int, Instruction] = {}
        self.computes = self.fails = False
        self.labels: list[int] = []

    def follow(self, start: int) -> None:
        """Follow the code from ``start`` on."""
        ahead = [start]
        while ahead:
            for instruction in self._decode(ahead.pop(), self._end):
                if instruction.ip in self.instructions:
                    break
                if instruction.is_invalid:
                    self.fails = True
                    break
                self.instructions[instruction.ip] = instruction
                flow: int = instruction.flow_control
                if instruction.op_count and instruction.op0_kind == OpKind.NEAR_BRANCH64:
                    target = instruction.near_branch_target
                    if self._code.address <= target < self._end:
                        ahead.append(target)
                elif flow == FlowControl.INDIRECT_BRANCH:
                    self.computes |= not instruction.is_ip_rel_memory_operand
                elif instruction.mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
                    label = instruction.ip_rel_memory_address
                    if self._code.address < label < self._end:
                        self.labels.append(label)
                if flow in _ENDS:
                    break

    def overlaps(self) -> bool:
        """Return whether bytes are read as parts of different instructions; not where a jump passes
        over a prefix."""
        at = stop = 0
        for ip in sorted(self.instructions):
            end = self.instructions[ip].next_ip
            prefixed = ip == at + 1 and end == stop and self._bytes(range(at, ip)) in _PREFIXES
            if ip < stop and not prefixed:
                return True
            at, stop = ip, end
        return False

    def gaps(self) -> Iterator[range]:
        """What lies between the instructions."""
        at = self._code.address
        for ip in sorted(self.instructions):
            if ip > at:
                yield range(at, ip)
            at = max(at, self.instructions[ip].next_ip)
        if at < self._end:
            yield range(at, self._end)

    def is_padding(self, gap: range) -> bool:
        """Return whether nothing but what fills up lies in ``gap``."""
        if not any(self._bytes(gap)):
            return True
        return all(each.mnemonic in _PADDING for each in self._decode(gap.start, gap.stop))

    def is_code(self, gap: range) -> bool:
        """Return whether instructions fill ``gap``, of which the last leads elsewhere."""
        last = FlowControl.NEXT
        for instruction in self._decode(gap.start, gap.stop):
            if instruction.is_invalid:
                return False
            last = instruction.flow_control
        return last in _CLOSED

    def _decode(self, start: int, stop: int) -> Iterator[Instruction]:
        return iter(Decoder(64, self._bytes(range(start, stop)), ip=start))

    def _bytes(self, part: range) -> bytes:
        first = self._code.address
        return self._code.code[part.start - first : part.stop - first]
