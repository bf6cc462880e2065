"""Which registers an arm64 function writes, and which before it branches for the first time."""

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


def all_writes(code: bytes, address: int) -> frozenset[str]:
    """Return the integer and vector registers that the instructions of ``code`` at ``address``
    write, in whole or in part: all vector registers, of which no instruction is decoded."""
    whole = Code(code, address, 0, address + len(code))
    numbers = {number for _, word in instructions.words(whole) for number in _moved(word)}
    return frozenset({*(f"x{n}" for n in numbers), *(f"v{n}" for n in range(32))})


def _moved(word: int) -> frozenset[int]:
    """What an instruction writes, but not what calls may change besides."""
    return frozenset() if instructions.is_call(word) else instructions.written(word)
