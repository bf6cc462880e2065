"""The registers that hold a value, piece by piece.

LLVM describes each part of a struct separately; some may be passed and others not: ``DW_OP_piece 8,
DW_OP_reg5, DW_OP_piece 8`` has nothing of its first half. Of a register that holds several members
it computes each: ``DW_OP_breg5 0, DW_OP_constu 32, DW_OP_shr, DW_OP_stack_value, DW_OP_piece 4``.
Source: DWARF 5, sections 2.6.1.1.2, 2.6.1.2 and 7.7.1.
"""

from __future__ import annotations

from lbtrace.dwarf.reader.forms import sleb, uleb
from lbtrace.model import Piece

REGISTERS, BASES = range(0x50, 0x70), range(0x70, 0x90)
"""DW_OP_reg0 to DW_OP_reg31, DW_OP_breg0 to DW_OP_breg31."""

REGX, PIECE, STACK_VALUE, CONVERT = 0x90, 0x93, 0x9F, 0xA8
CONST1U, CONSTU, LITERALS = 0x08, 0x10, range(0x30, 0x50)
SHIFTS = (0x25, 0x26)
"""DW_OP_shr, DW_OP_shra."""


def read_pieces(expression: bytes) -> tuple[Piece, ...]:
    """Return which bytes of a value are in which registers; nothing where some are elsewhere, or
    unknown. A piece that ends at 0 is all of the value."""
    found: list[Piece] = []
    at = start = 0
    try:
        while at < len(expression):
            register, shift, at = _source(expression, at)
            if at == len(expression):
                whole = not found and not shift and register >= 0
                return (Piece(register, 0, 0),) if whole else ()
            size, at = uleb(expression, at + 1)
            if register >= 0:
                found.append(Piece(register, start, start + size, shift // 8))
            start += size
    except (IndexError, ValueError):
        return ()
    return tuple(found)


def _source(expression: bytes, at: int) -> tuple[int, int, int]:
    """The register from which a piece at ``at`` comes, -1 for none, how many of its bits lie
    below, and where the expression continues. Raises ValueError for anything else."""
    operation = expression[at]
    if operation == PIECE:
        return -1, 0, at
    if operation == REGX:
        register, at = uleb(expression, at + 1)
        return register, 0, _end(expression, at)
    if operation in REGISTERS:
        return operation - REGISTERS.start, 0, _end(expression, at + 1)
    if operation not in BASES:
        raise ValueError
    offset, at = sleb(expression, at + 1)
    if offset:
        raise ValueError
    shift, at = _shift(expression, at)
    return operation - BASES.start, shift, _end(expression, at)


def _shift(expression: bytes, at: int) -> tuple[int, int]:
    """By how many bits a value is moved down before it is taken as it is."""
    shift = 0
    while (operation := expression[at]) != STACK_VALUE:
        at += 1
        if operation == CONVERT:
            _, at = uleb(expression, at)
            continue
        if operation in LITERALS:
            number = operation - LITERALS.start
        elif operation in (CONST1U, CONSTU):
            number, at = uleb(expression, at) if operation == CONSTU else (expression[at], at + 1)
        else:
            raise ValueError
        if expression[at] not in SHIFTS or number % 8:
            raise ValueError
        shift, at = shift + number, at + 1
    return shift, at + 1


def _end(expression: bytes, at: int) -> int:
    if at < len(expression) and expression[at] != PIECE:
        raise ValueError
    return at
