"""The stubs through which a binary calls functions that the loader binds.

A stub ends in a jump through a slot of the GOT; the relocation of the slot
names the function. Layouts: gabi chapter 4 (relocations), System V psABI for
x86-64, section 5.2 (procedure linkage table); ELF for the Arm 64-bit
Architecture, sections 5.7.3 (relocations) and 6.2.2 (procedure linkage table).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.elf.image import Image, string

RELA = Layout("<QQq")
SYMBOL = Layout("<IBBHQQ")
SHT_RELA = 4
SLOTS = {"x86_64": (6, 7), "aarch64": (1025, 1026)}
"""R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT; R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT."""

JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", re.DOTALL)
"""``endbr64``, ``bnd`` where there is one, ``jmp *slot(%rip)``."""


WORD = Layout("<I")
BTI_C = 0xD503245F


class Stub(NamedTuple):
    """What a stub leads to. ``address`` is where the image itself defines it, or 0."""

    name: str
    address: int


def stubs(image: Image) -> dict[int, Stub]:
    """The stubs of an image, by their address."""
    slots = dict(_slots(image))
    jumps = _jumps_arm64 if image.machine == "aarch64" else _jumps_amd64
    return {
        address: slots[slot]
        for section in image.sections
        if section.name.startswith(".plt")
        for address, slot in jumps(image.content(section), section.address)
        if slot in slots
    }


def _jumps_amd64(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The stubs in a section at ``start``, and the slots through which they jump."""
    for match in JUMP.finditer(code):
        behind = start + match.end()
        yield start + match.start(), behind + int.from_bytes(match[1], "little", signed=True)


def _jumps_arm64(code: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The same: ``bti c`` where there is one, ``adrp x16``, ``ldr x17, [x16, …]``."""
    words = [word for (word,) in WORD.iter_unpack(code[: len(code) // 4 * 4])]
    for at, (page, load) in enumerate(pairwise(words)):
        if page & 0x9F00001F != 0x90000010 or load & 0xFFC003FF != 0xF9400211:
            continue
        pages = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
        pages -= pages >> 20 << 21
        first = at - 1 if at and words[at - 1] == BTI_C else at
        here = (start + 4 * at) & ~0xFFF
        yield start + 4 * first, here + (pages << 12) + (load >> 10 & 0xFFF) * 8


def _slots(image: Image) -> Iterator[tuple[int, Stub]]:
    """The GOT slots that the loader fills with the addresses of functions."""
    table = image.section(".dynsym")
    if table is None or table.link >= len(image.sections):
        return
    strings = image.content(image.sections[table.link])
    data = image.content(table)
    symbols = list(SYMBOL.iter_unpack(data[: len(data) // SYMBOL.size * SYMBOL.size]))
    for section in image.sections:
        if section.type != SHT_RELA or not section.name.startswith(".rela."):
            continue
        data = image.content(section)
        for slot, info, _ in RELA.iter_unpack(data[: len(data) // RELA.size * RELA.size]):
            if info & 0xFFFFFFFF in SLOTS[image.machine] and info >> 32 < len(symbols):
                name, _, _, index, value, _ = symbols[info >> 32]
                yield slot, Stub(string(strings, name), value if index else 0)
