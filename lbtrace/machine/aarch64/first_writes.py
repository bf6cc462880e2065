"""Which registers an arm64 function writes before it branches for the first time."""

from __future__ import annotations

from lbtrace.machine.aarch64 import instructions
from lbtrace.machine.code import Code


def first_writes(code: Code) -> frozenset[str]:
    """Return the registers, by their names, that the instructions of ``code`` up to its first call,
    jump or return write, in whole or in part."""
    found: set[int] = set()
    for _, word in instructions.words(code):
        if instructions.is_call(word) or instructions.is_br(word):
            break
        if instructions.jump(word) is not None or instructions.is_ret(word):
            break
        found |= instructions.written(word)
    return frozenset(f"x{number}" for number in found)
