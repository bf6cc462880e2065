"""Whether arm64 code switches stacks by itself, as libraries of fibers do in assembly."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lbtrace.arch import StackSwitch
from lbtrace.arch.arm64_words import is_br, is_call, is_ret, jump
from lbtrace.model import Fetch

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

SCRATCH = 19
"""Registers below this one are no one's to keep; compilers keep the stack pointer of
arrays of variable length in the others."""


def stack_switches(code: bytes, address: int) -> Iterator[StackSwitch]:
    """Where in ``code`` another stack is taken up: see amd64_switch."""
    at = code.find(b"\0\x91")  # mov sp, xN is an add of 0: C4.1.65
    while at >= 0:
        start = at - 2
        if start >= 0 and start % 4 == 0 and _switches(code[start : start + 4 * LOOK_AHEAD]):
            register = f"x{int.from_bytes(code[start : start + 2], 'little') >> 5 & 31}"
            yield StackSwitch(address + start, Fetch(register=register))
        at = code.find(b"\0\x91", at + 1)


def _switches(code: bytes) -> bool:
    words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code) - 3, 4)]
    if not _takes_up(words[0]):
        return False
    for word in islice(words, 1, None):
        if is_ret(word) or is_br(word):
            return True
        if jump(word) is not None or is_call(word) or word & 0xFFC0001F == 0x9100001F:
            return False
    return False


def _takes_up(word: int) -> bool:
    """Whether it is ``mov sp, xN``, from a register that is no one's to keep."""
    return word & 0xFFFFFC1F == 0x9100001F and word >> 5 & 31 < SCRATCH
