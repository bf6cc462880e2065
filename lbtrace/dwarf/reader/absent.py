"""The parts of a value for which debug information has no location.

Source: DWARF 5, sections 2.6.1.2 (composite locations) and 7.7.1 (encoding); of what GNU added
before, the numbers from 0xF2 on.
"""

from __future__ import annotations

from collections.abc import Iterable

from lbtrace.dwarf.reader.forms import sleb, uleb
from lbtrace.elf.debug_sections import DwarfError

PIECE = 0x93

LARGEST = 64
"""Bytes of a value that is looked at: what travels in registers is smaller."""

OPERANDS = {
    **dict.fromkeys((0x06, *range(0x12, 0x15), *range(0x16, 0x23), *range(0x24, 0x28)), ""),
    **dict.fromkeys((*range(0x29, 0x2F), *range(0x30, 0x70), 0x96, 0x9C, 0x9F), ""),
    **dict.fromkeys((0x08, 0x09, 0x15, 0x94), "1"),
    **dict.fromkeys((0x0A, 0x0B, 0x28, 0x2F), "2"),
    **dict.fromkeys((0x0C, 0x0D), "4"),
    **dict.fromkeys((0x03, 0x0E, 0x0F), "8"),
    **dict.fromkeys((0x10, 0x23, 0x90, 0xA8, 0xA9, 0xF7, 0xF9), "u"),
    **dict.fromkeys((0x11, *range(0x70, 0x90), 0x91), "s"),
    **{0x92: "us", 0x9E: "b", 0xA3: "b", 0xF3: "b"},
}
"""DW_OP_*: of which kinds the operands are: LEB128, a block, or of a size. What is not listed is
not understood."""


def find_absent(expressions: Iterable[bytes], size: int) -> tuple[tuple[int, int], ...]:
    """Return the bytes of a value of this ``size``, from one offset to another, that none of its
    locations ``expressions`` has anything for; nothing where one of them has all, or is not
    understood."""
    left: set[int] | None = None
    for expression in expressions:
        empty = _read_empty(expression, size)
        left = empty if left is None else left & empty
        if not left:
            return ()
    first = [at for at in sorted(left or ()) if at - 1 not in (left or ())]
    last = [at + 1 for at in sorted(left or ()) if at + 1 not in (left or ())]
    return tuple(zip(first, last, strict=True))


def _read_empty(expression: bytes, size: int) -> set[int]:
    """The bytes that an expression leaves out between its pieces, and after the last one."""
    if size > LARGEST:
        return set()
    empty = set(range(size))
    at = start = 0
    try:
        while at < len(expression):
            begin = at
            while expression[at] != PIECE:
                at = _skip(expression, at)
            length, after = uleb(expression, at + 1)
            if at > begin:
                empty.difference_update(range(start, start + length))
            start, at = start + length, after
    except (IndexError, KeyError, ValueError, DwarfError):
        return set()
    return empty if start else set()


def _skip(expression: bytes, at: int) -> int:
    """The position after the operation at ``at``."""
    kinds = OPERANDS[expression[at]]
    at += 1
    for kind in kinds:
        if kind == "s":
            _, at = sleb(expression, at)
        elif kind.isdigit():
            at += int(kind)
        else:
            number, at = uleb(expression, at)
            at += number if kind == "b" else 0
    return at
