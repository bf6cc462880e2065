"""Finds stack switches in arm64 code, as in the assembly of fiber libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from lbtrace.machine.aarch64.instructions import is_br, is_call, is_ret, jump
from lbtrace.machine.code import StackSwitch
from lbtrace.machine.code_scan import find_bytes
from lbtrace.model import Fetch

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

SCRATCH = 19
"""x0 to x18 are caller-saved (AAPCS64 6.1.1); compilers keep the stack pointer of arrays of
variable length in the others."""


def stack_switches(
    code: memoryview, address: int, start_of: Callable[[int], int | None]
) -> Iterator[StackSwitch]:
    """Yield where ``code`` switches to another stack, as on x86-64."""
    for at in find_bytes(code, b"\0\x91"):  # mov sp, xN is an add of 0: C4.1.65
        start = at - 2
        if start < 0 or start % 4:
            continue
        ahead = bytes(code[start : start + 4 * LOOK_AHEAD])
        if _switches(ahead):
            register = f"x{int.from_bytes(ahead[:2], 'little') >> 5 & 31}"
            yield StackSwitch(address + start, Fetch(register=register))


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
    """Whether it is ``mov sp, xN``, from a caller-saved register."""
    return word & 0xFFFFFC1F == 0x9100001F and word >> 5 & 31 < SCRATCH
