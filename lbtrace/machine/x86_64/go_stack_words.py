"""Infers undeclared arguments and results on the stack of a Go function from its x86-64 code.

Before 1.17 arguments follow the return address, and results follow them. The code reads an argument
before it ever writes it, and writes a result before it reads it. Nothing is known of words that it
reaches by address only.
"""

from __future__ import annotations

from collections.abc import Iterator

import iced_x86
from iced_x86 import Decoder, Instruction, Mnemonic, OpAccess, OpKind, Register

from lbtrace.machine.code import Code, InferredStackWords
from lbtrace.machine.x86_64.operands import added_number

WORD = 8

LONGEST = 4000
"""Instructions of a function that are looked at."""

_READS = frozenset(
    {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)


def infer_stack_words(code: Code, words: int) -> InferredStackWords | None:
    """Split the stack words into arguments and results; None if ambiguous."""
    read: dict[int, set[tuple[int, int]]] = {}
    written: dict[int, set[tuple[int, int]]] = {}
    for offset, size, kind in _uses(code, WORD * words):
        if not kind:  # its address is taken
            if offset // WORD not in read.keys() | written.keys():
                return None
            continue
        for at in range(offset // WORD, -(-(offset + size) // WORD)):
            part = (max(offset - WORD * at, 0), min(size, WORD))
            if kind == "read" and at not in written:
                read.setdefault(at, set()).add(part)
            elif kind == "write" and at not in read:
                written.setdefault(at, set()).add(part)
    first = min(written, default=words)
    if any(at > first for at in read) or any(at not in written for at in range(first, words)):
        return None
    return InferredStackWords(
        tuple(_parts(read.get(at, set())) for at in range(first)),
        tuple(_size(written[at]) for at in range(first, words)),
    )


def _parts(found: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places and sizes inside a word, in order; the whole word where they overlap."""
    parts = sorted(found)
    ends = [at + size for at, size in parts]
    if any(end > at for end, (at, _) in zip(ends, parts[1:], strict=False)):
        return ((0, WORD),)
    return tuple(parts)


def _size(found: set[tuple[int, int]]) -> int:
    """Bytes of a word that are written, where that is a number; else all."""
    ((at, size), *others) = found
    return size if not (at or others) and size in (1, 2, 4) else WORD


def _uses(code: Code, end: int) -> Iterator[tuple[int, int, str]]:
    """Where the function reads and writes, from its arguments on up to ``end``, and of how
    many bytes; nothing is done where it takes an address."""
    info = iced_x86.InstructionInfoFactory()
    frame = 0
    decoder = Decoder(64, code.code, ip=code.address)
    for _, instruction in zip(range(LONGEST), decoder, strict=False):
        if not frame:
            frame = _frame(instruction)
            if frame:
                continue
        address = instruction.mnemonic == Mnemonic.LEA and instruction.memory_base == Register.RSP
        if address:
            offset = _signed(instruction.memory_displacement) - frame - WORD
            if 0 <= offset < end:
                yield offset, 0, ""
            continue
        for used in info.info(instruction).used_memory():
            offset = _signed(used.displacement) - frame - WORD
            if used.base != Register.RSP or not 0 <= offset < end:
                continue
            if used.index != Register.NONE:
                yield offset, 0, ""
            else:
                size = iced_x86.MemorySizeExt.size(used.memory_size)
                yield offset, size, "read" if used.access in _READS else "write"


def _frame(instruction: Instruction) -> int:
    """By how much an instruction makes room on the stack, in bytes."""
    if instruction.op0_kind != OpKind.REGISTER or instruction.op0_register != Register.RSP:
        return 0
    number = added_number(instruction)
    if number is None:
        return 0
    if instruction.mnemonic == Mnemonic.SUB:
        return number
    if instruction.mnemonic == Mnemonic.ADD:
        return max(0, -number)
    return 0


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
