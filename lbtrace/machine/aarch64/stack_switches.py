"""Finds stack switches in arm64 code, as in the assembly of fiber libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import iter_unpack

from lbtrace.machine.aarch64.frame_values import FRAME, SCRATCH, values_before
from lbtrace.machine.aarch64.instructions import (
    SP,
    is_authenticated_ret,
    is_b,
    is_br,
    is_call,
    is_ret,
    is_trap,
    jump,
)
from lbtrace.machine.code import StackSwitch
from lbtrace.machine.code_scan import find_stack_words
from lbtrace.machine.held_values import Value
from lbtrace.model import Fetch

LOOK_AHEAD = 24
"""Instructions from the switch to the jump into the other stack's code, at most."""

FARTHEST = 1 << 16
"""Bytes of code that are read up to what looks like a switch, at most."""


def stack_switches(
    code: memoryview, address: int, start_of: Callable[[int], int | None]
) -> Iterator[StackSwitch]:
    """Yield where ``code`` switches to another stack, as on x86-64: by ``mov``, ``add`` or ``sub``
    of another register, or ``and``. What calls a function on another stack and comes back is none.
    """
    for at in find_stack_words(code):
        word = int.from_bytes(code[at : at + 4], "little")
        if _moves_both(word, int.from_bytes(code[at + 4 : at + 8], "little")):
            yield StackSwitch(address + at, None, resumes=False)
            continue
        if not _leaves(code, at, straight=_shifts(word)):
            continue
        start = start_of(address + at)
        known = start is not None and address <= start <= address + at <= start + FARTHEST
        words = _words(code, start - address if known and start is not None else at, at)
        if known:
            taken = _takes_up(word, words, address + at)
        else:
            taken = not _shifts(word) and word >> 5 & 31 < SCRATCH
        if taken:
            keeps = not known or any(map(_copies_stack, words))
            yield StackSwitch(address + at, _pointer(word), keeps, not _shifts(word))


def _words(code: memoryview, start: int, end: int) -> list[int]:
    return [word for (word,) in iter_unpack("<I", code[start:end])]


def _takes_up(word: int, words: list[int], at: int) -> bool:
    """Whether an instruction at ``at`` sets the stack pointer to another stack, behind the
    ``words`` of its function."""
    value = values_before(words, at - 4 * len(words), at).of_new_stack(word)
    if _shifts(word):
        return value <= Value.ARGUMENT
    return value <= Value.ARGUMENT or (value == Value.UNKNOWN and word >> 5 & 31 < SCRATCH)


def _shifts(word: int) -> bool:
    """Whether the stack pointer is moved by what a register holds, as for an array."""
    return word & 0x1F000000 == 0x0B000000 and word >> 5 & 31 == SP


def _moves_both(word: int, following: int) -> bool:
    """Whether sp and the frame pointer are moved alike, as greenlet does: what follows is still its
    own."""
    frame = 0x8B000000 | FRAME << 5 | FRAME
    added = word & 0xFFE00000 == 0x8B200000 and word >> 5 & 31 == SP
    return added and following == frame | word & 31 << 16


def _leaves(code: memoryview, at: int, *, straight: bool) -> bool:
    """Whether the code behind a place leaves by a return or a computed jump, also by way of jumps,
    branches and calls unless it has to be ``straight``."""
    ahead, seen = [at + 4], set[int]()
    while ahead and len(seen) < LOOK_AHEAD:
        place = ahead.pop()
        while 0 <= place <= len(code) - 4 and place not in seen and len(seen) < LOOK_AHEAD:
            seen.add(place)
            word = int.from_bytes(code[place : place + 4], "little")
            if is_ret(word) or is_br(word) or is_authenticated_ret(word):
                return True
            distance = jump(word)
            if _sets_stack(word) or is_trap(word):
                break
            if straight and (distance is not None or is_call(word)):
                return False
            if distance is not None:
                ahead.append(place + distance)
            if is_b(word):
                break
            place += 4
    return False


def _sets_stack(word: int) -> bool:
    """Whether sp is set anew, rather than moved on."""
    immediate = word & 0xBF80001F == 0x9100001F or word & 0xFF80001F == 0x9200001F
    return immediate and word >> 5 & 31 != SP


def _pointer(word: int) -> Fetch | None:
    """What fetches the new stack pointer, or an address next to it."""
    if word & 0x1F000000 == 0x0B000000:
        return None
    offset = 0
    if word & 0x1F000000 == 0x11000000:
        offset = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
    return Fetch(register=f"x{word >> 5 & 31}", offset=-offset if word >> 30 & 1 else offset)


def _copies_stack(word: int) -> bool:
    """Whether an instruction puts sp, or an address near it, elsewhere than into the frame
    pointer."""
    copied = word & 0xBF800000 == 0x91000000 and word >> 5 & 31 == SP
    return copied and word & 31 not in (FRAME, SP)
