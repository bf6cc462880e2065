"""Decodes what probes need to know of arm64 instructions.

Instructions have four bytes, so code is read word by word. Encodings: Arm
Architecture Reference Manual (DDI 0487), C4.1. What a kernel does with a
uprobe on each: ``arch/arm64/kernel/probes/decode-insn.c`` and
``arch/arm64/include/asm/insn.h``; where kernels from 5.10 on differ, the
strictest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lbtrace.machine.code import Code

NOP = 0xD503201F
LINK = 30
"""The register of the return address."""

HINTS = frozenset({0, 7, 8, 10, *range(24, 28), *range(32, 40, 2)})
"""CRm:op2 of the hints that may be stepped: nop, xpaclri, pacia and the like, bti
(``aarch64_insn_is_steppable_hint``). Checking a signature may fault, so autiasp is none."""

SP = 31


def words(code: Code) -> Iterator[tuple[int, int]]:
    """Yield the addresses of a function's instructions, and the instructions."""
    for at in range(0, len(code.code) - 3, 4):
        yield code.address + at, int.from_bytes(code.code[at : at + 4], "little")


_JUMPS = re.compile(rb"[\x14-\x17\x34-\x37\x54\xb4-\xb7\xd6\xd7]")
"""The highest byte of whatever `jump` or `is_br` knows."""


def jumps(code: Code) -> Iterator[tuple[int, int]]:
    """Yield the same of those that may be jumps, which most are not."""
    for match in _JUMPS.finditer(code.code[3::4]):
        at = 4 * match.start()
        yield code.address + at, int.from_bytes(code.code[at : at + 4], "little")


def jump(word: int) -> int | None:
    """Return how far a direct jump leads, in bytes; None for another instruction. C4.1.66."""
    if is_b(word):
        return _signed(word, 0, 26)
    if word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        return _signed(word, 5, 19)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return _signed(word, 5, 14)
    return None


def is_b(word: int) -> bool:
    """Return whether it is an unconditional direct jump, ``b``."""
    return word & 0xFC000000 == 0x14000000


def condition(word: int) -> int | None:
    """Return the code of the condition with which ``b.cond`` jumps; None for another
    instruction."""
    return word & 15 if word & 0xFF000010 == 0x54000000 else None


def is_ret(word: int) -> bool:
    """Return whether it is ``ret``, through any register."""
    return word & 0xFFFFFC1F == 0xD65F0000


def is_call(word: int) -> bool:
    """Return whether it is ``bl`` or ``blr``."""
    return word & 0xFC000000 == 0x94000000 or word & 0xFFFFFC1F == 0xD63F0000


def is_authenticated_ret(word: int) -> bool:
    """Return whether it is ``retaa`` or ``retab``."""
    return word in (0xD65F0BFF, 0xD65F0FFF)


def is_br(word: int) -> bool:
    """Return whether it is an indirect jump: ``br``, or with authentication ``braa`` and the
    like."""
    return word & 0xFFFFFC1F == 0xD61F0000 or word & 0xFEFFF800 == 0xD61F0800


def is_plain_br(word: int) -> bool:
    """Return whether it is ``br``, on which kernels allow probes."""
    return word & 0xFFFFFC1F == 0xD61F0000


def is_simulated(word: int) -> bool:
    """Return whether kernels simulate the instruction: a probe on it costs no single-step."""
    return (
        jump(word) is not None
        or word & 0xFC000000 == 0x94000000  # bl
        or word & 0x1F000000 == 0x10000000  # adr, adrp
        or word & 0xFF9FFC1F == 0xD61F0000  # br, blr, ret
    )


def is_refused(word: int) -> bool:
    """Return whether some kernel refuses a uprobe on the instruction, or gets it wrong."""
    if is_simulated(word):
        return False
    if word & 0x1C000000 == 0x14000000:  # branches, exceptions, system instructions
        if word & 0xFFFFF01F == 0xD503201F:
            return word >> 5 & 0x7F not in HINTS
        # Left: barriers, mrs but of DAIF, dc, ic and the like.
        return (
            word & 0xFF000000 == 0xD4000000  # svc, brk and the like
            or word & 0xFE000000 == 0xD6000000  # eret, and branches with authentication
            or word & 0xFFF00000 == 0xD5100000  # msr of a register
            or word & 0xFFF8F01F == 0xD500401F  # msr of an immediate
            or word & 0xFFFFFFE0 == 0xD53B4220  # mrs of DAIF
        )
    literal = word & 0x3B000000 == 0x18000000  # ldr, ldrsw, prfm
    exclusive = word & 0x3F000000 == 0x08000000
    return literal or exclusive or word & 0x1E000000 == 0  # reserved, and what is unallocated


class Effect(NamedTuple):
    """The effect of an instruction: the ``register`` it writes (31: none), and how far the stack
    pointer ``sinks``. ``link`` says that it may use the return address."""

    register: int = 31
    sinks: int = 0
    link: bool = False


def effect(word: int) -> Effect | None:
    """Return the effect of an instruction that continues to the next; None where it writes memory,
    does not continue, or is unknown here."""
    target = word & 31
    link = LINK in (target, word >> 5 & 31, word >> 16 & 31)
    if word & 0xFFFFF01F == 0xD503201F:  # hints: many sign or check the return address
        return Effect(link=word >> 5 & 0x7F in range(7, 32))
    if word & 0x1C000000 == 0x10000000:
        return _of_immediate(word, target, link)
    if word & 0x0E000000 == 0x0A000000:  # between registers: C4.1.69
        # An extended register may be added to the stack pointer.
        moves = word & 0x1FE00000 == 0x0B200000 and target == SP and not word >> 29 & 1
        return None if moves else Effect(target, link=link)
    if word & 0x3FC00000 == 0x39400000:  # ldr, ldrh, ldrb of an unsigned offset: C4.1.68
        return Effect(target, link=target == LINK)
    return None


def _of_immediate(word: int, target: int, link: bool) -> Effect | None:
    """C4.1.65."""
    which = word >> 29 & 3
    if word & 0x1F800000 == 0x11000000 and target == SP and not which & 1:  # not adds, subs
        size = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
        return Effect(sinks=size) if which & 2 and word >> 5 & 31 == SP else None
    logical = word & 0x1F800000 == 0x12000000 and which != 3  # not ands
    tags = word & 0x1F800000 == 0x11800000
    return None if target == SP and (logical or tags) else Effect(target, link=link)


def _signed(word: int, low: int, bits: int) -> int:
    number = word >> low & (1 << bits) - 1
    return (number - (1 << bits) if number >> bits - 1 else number) * 4


def signed(word: int, low: int, bits: int) -> int:
    """Return a signed field of ``word``, times four."""
    return _signed(word, low, bits)


def is_bl(word: int) -> bool:
    """Return whether it is ``bl``."""
    return word & 0xFC000000 == 0x94000000


def is_trap(word: int) -> bool:
    """Return whether it is ``brk``, ``hlt`` or ``udf``."""
    return word & 0xFFE0001F in (0xD4200000, 0xD4400000) or word >> 16 == 0


def ends_line(word: int) -> bool:
    """Return whether the next instruction does not follow."""
    return is_b(word) or is_ret(word) or is_br(word) or is_trap(word) or is_authenticated_ret(word)


def moves_stack(word: int) -> bool:
    """Return whether it may write the stack pointer: C4.1.65, C4.1.69, C4.1.94."""
    if word & 0x0A000000 == 0x08000000:  # loads and stores that write their base back
        pair = word & 0x3A800000 == 0x28800000
        single = word & 0x3B200400 == 0x38000400
        return word >> 5 & 31 == SP and (pair or single)
    if word & 31 != SP:
        return False
    if word & 0x1F800000 == 0x12000000:  # and, orr, eor of an immediate
        return word >> 29 & 3 != 3
    added = word & 0x1F000000 == 0x11000000 or word & 0x1FE00000 == 0x0B200000
    return added and not word >> 29 & 1


def is_load_exclusive(word: int) -> bool:
    """Return whether it is ``ldxr``, ``ldaxp`` or the like: C4.1.94."""
    return word & 0x3FC00000 == 0x08400000


def is_store_exclusive(word: int) -> bool:
    """Return whether it is ``stxr``, ``stlxp`` or the like."""
    return word & 0x3FC00000 == 0x08000000


@lru_cache(maxsize=4096)
def written(word: int) -> frozenset[int]:
    """Return the integer registers that an instruction may write, the stack pointer (31) left out:
    rather more than fewer of them."""
    if is_call(word):
        return CLOBBERED
    if word & 0x1C000000 == 0x14000000:  # branches and system instructions
        return frozenset({word & 31}) if word & 0xFFF00000 == 0xD5300000 else frozenset()
    if word & 0x0A000000 != 0x08000000:
        return frozenset({word & 31})
    return _loaded(word)


CLOBBERED = frozenset({*range(19), LINK})
"""What a call may change: AAPCS64, 6.1.1."""


def _loaded(word: int) -> frozenset[int]:
    """The registers that a load or store writes."""
    found = set()
    pair = word & 0x3A000000 == 0x28000000
    single = word & 0x3A000000 == 0x38000000
    vector = word >> 26 & 1
    loads = bool(word >> 22 & 1) if pair else bool(word >> 22 & 3) or not single
    if loads and not vector:
        found.add(word & 31)
        if pair or not single:
            found.add(word >> 10 & 31)
    if word & 0x3F000000 == 0x08000000:  # exclusive: the status
        found.add(word >> 16 & 31)
    back = pair and word >> 23 & 1
    if back or (single and not word >> 24 & 1 and not word >> 21 & 1 and word >> 10 & 1):
        found.add(word >> 5 & 31)
    return frozenset(found)
