"""What are calls and jumps in arm64 code.

Source: Arm Architecture Reference Manual, C4.1.66: an instruction is a word; ``b`` and ``bl`` have
six bits of code and a number of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

WORD = Struct("<I")


def reached(code: bytes, start: int) -> Iterator[int]:
    """Yield the addresses to which code at ``start`` may jump, or which it may call."""
    for at, (word,) in enumerate(WORD.iter_unpack(code[: len(code) // 4 * 4])):
        if word & 0x7C000000 == 0x14000000:
            distance = word & 0x3FFFFFF
            yield start + 4 * (at + distance - (distance >> 25 << 26))


def jumps(code: bytes) -> Iterator[int | None]:
    """Yield where in ``code``, or outside of it, jumps lead; None for those through pointers."""
    for at, (word,) in enumerate(WORD.iter_unpack(code[: len(code) // 4 * 4])):
        if word & 0xFFFFFC1F == 0xD61F0000:  # br
            yield None
        elif word & 0xFC000000 == 0x14000000:  # b
            distance = word & 0x3FFFFFF
            yield 4 * (at + distance - (distance >> 25 << 26))
