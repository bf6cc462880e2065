"""What linkers and the dynamic loader do on arm64.

Sources: ELF for the Arm 64-bit Architecture, sections 5.7.3 (relocations) and 6.2.2 (procedure
linkage table); glibc's ``sysdeps/generic/ldconfig.h`` for the loader's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct as Layout

RELATIVE = 1027
"""R_AARCH64_RELATIVE: the load address plus the addend."""

INDIRECT = 1032
"""R_AARCH64_IRELATIVE: what the function there returns."""

SLOTS = (1025, 1026)
"""R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT."""

THREAD_OFFSET = 1030
"""R_AARCH64_TLS_TPREL: how far a variable is from the thread pointer."""

CACHE_FLAGS = 0x0A03
"""FLAG_ELF_LIBC6, FLAG_AARCH64_LIB64."""

WORD = Layout("<I")
BTI_C = 0xD503245F
THREAD_POINTER, RETURN = 0xD53BD040, 0xD65F03C0
"""``mrs x0, tpidr_el0``, ``ret``."""

ADD, SUBTRACT = 0x91000000, 0xD1000000
"""``add`` and ``sub`` of x0, by the number in bits 10 to 21."""


def thread_place(code: bytes) -> int | None:
    """See `lbtrace.machine.interface.Linking`."""
    words = [word for (word,) in WORD.iter_unpack(code[:16]) if word != BTI_C][:3]
    if len(words) < 3 or (words[0], words[2]) != (THREAD_POINTER, RETURN):
        return None
    number, rest = words[1] >> 10 & 0xFFF, words[1] & 0xFFC003FF
    return {ADD: number, SUBTRACT: -number}.get(rest)


def stubs(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the PLT stubs in a section at ``start``, and the slots through which they jump: ``bti
    c`` where there is one, ``adrp x16``, ``ldr x17, [x16, …]``."""
    words = [word for (word,) in WORD.iter_unpack(code[: len(code) // 4 * 4])]
    for at, (page, load) in enumerate(pairwise(words)):
        if page & 0x9F00001F != 0x90000010 or load & 0xFFC003FF != 0xF9400211:
            continue
        pages = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
        pages -= pages >> 20 << 21
        first = at - 1 if at and words[at - 1] == BTI_C else at
        here = (start + 4 * at) & ~0xFFF
        yield start + 4 * first, here + (pages << 12) + (load >> 10 & 0xFFF) * 8


def slot_calls(code: bytes, start: int) -> Iterator[int]:
    """See `lbtrace.machine.interface.Linking`: no instruction names a slot."""
    return iter(())


def thread_block(size: int, alignment: int) -> int:
    """See `lbtrace.machine.interface.Linking`. It follows two words at the thread pointer (ELF
    Handling For Thread-Local Storage, variant I)."""
    return -(-16 // alignment) * alignment
