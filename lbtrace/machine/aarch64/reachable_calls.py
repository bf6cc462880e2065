"""Finds what arm64 code calls, and whether it reads return addresses.

Every word is an instruction (Arm Architecture Reference Manual, C4.1); data among them
can only add to what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import iter_unpack

from lbtrace.machine.code import Code, Reach
from lbtrace.machine.code_scan import find_bytes

_LINK = 30

_PADDING = frozenset({0xD503201F, 0})
"""``nop`` and ``udf``: what linkers and assemblers fill up with."""


def reach(code: Code, depth: int | None) -> Reach:
    """See `lbtrace.machine.Machine.find_reach`. The link register counts as looked at where it
    is copied to another register; storing it in a frame is what every function does."""
    start, end = code.address, code.address + len(code.code) // 4 * 4
    calls: dict[int, None] = {}
    jumps: dict[tuple[int, int | None], None] = {}
    doubt, keeps, away, ends, before = "", False, False, False, 0
    for at, (word,) in enumerate(iter_unpack("<I", code.code[: len(code.code) // 4 * 4])):
        if ends and word in _PADDING:
            continue
        address = start + 4 * at
        ends = word & 0x7C000000 == 0x14000000 or word & 0xFE000000 == 0xD6000000
        target = _target(word, address)
        if target is not None:
            if word >> 26 == 0b100101:
                calls[target] = None
            elif not start <= target < end:
                jumps[target, None] = None
        elif word & 0xFE1F0000 == 0xD61F0000 and not _returns(word):
            doubt = doubt or f"goes through a pointer at {address:#x}"
            away |= not _calls(word) and not _is_switch(word, before)
        elif word & 0xFF000000 == 0xD4000000:
            doubt = doubt or f"makes a system call at {address:#x}"
        elif _sets_stack(word, before):
            doubt = doubt or f"sets its stack pointer at {address:#x}"
        elif word & 0xFFFFFFE0 == 0xAA1E03E0 or word == 0xD50320FF:  # mov x?, x30; xpaclri
            keeps = True
        before = word
    if not ends:  # what is called last does not return
        doubt = doubt or "continues beyond its end"
    return Reach(tuple(calls), tuple(jumps), doubt=doubt, keeps=keeps, jumps_away=away)


_FOLLOWS = tuple((0xF94003A0 | to).to_bytes(4, "little") for to in range(29))
"""``ldr x?, [x29]``: the caller's frame pointer (C6.2, LDR (immediate))."""


def walkers(code: memoryview, address: int, _following: Callable[[int], int]) -> Iterator[int]:
    """See `lbtrace.machine.Machine.find_walkers`."""
    for word in _FOLLOWS:
        yield from (address + at for at in find_bytes(code, word) if not at % 4)


def _target(word: int, address: int) -> int | None:
    """Where a direct branch leads (C4.1.66); None for other instructions."""
    if word & 0x7C000000 == 0x14000000:  # b, bl
        return address + 4 * _signed(word & 0x3FFFFFF, 26)
    if word & 0xFE000000 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz
        return address + 4 * _signed(word >> 5 & 0x7FFFF, 19)
    if word & 0x7E000000 == 0x36000000:  # tbz
        return address + 4 * _signed(word >> 5 & 0x3FFF, 14)
    return None


def _returns(word: int) -> bool:
    """``ret x30``, ``retaa``, ``retab``."""
    return word in (0xD65F0000 | _LINK << 5, 0xD65F0BFF, 0xD65F0FFF)


def _calls(word: int) -> bool:
    """``blr``, also with authentication, of what goes through a register."""
    return bool(word & 0x200000)


def _is_switch(word: int, before: int) -> bool:
    """Whether a jump goes to what was added up just ``before`` it, as an entry of a table and the
    table's address (C4.1.95: add of a shifted or an extended register)."""
    return before & 0x7F000000 == 0x0B000000 and before & 31 == word >> 5 & 31


def _sets_stack(word: int, before: int) -> bool:
    """``mov``, ``add``, ``sub`` or ``and`` of another register than the frame pointer, unless it is
    realigned, which was computed just ``before`` of the stack pointer (C4.1.65)."""
    source = word >> 5 & 31
    if word & 0xFF80001F == 0x9200001F:
        return before & 0xBF8003FF != 0x910003E0 | source
    return word & 0xBF80001F == 0x9100001F and source not in (29, 31)


def _signed(number: int, bits: int) -> int:
    return number - (number >> bits - 1 << bits)
