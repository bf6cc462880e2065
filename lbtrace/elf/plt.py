"""The stubs through which a binary calls functions that the loader binds.

A stub ends in a jump through a slot of the GOT; the relocation of the slot
names the function. Layouts: gabi chapter 4 (relocations), System V psABI for
x86-64, section 5.2 (procedure linkage table).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.elf.image import Image, string

RELA = Layout("<QQq")
SYMBOL = Layout("<IBBHQQ")
SHT_RELA = 4
SLOTS = (6, 7)
"""R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT."""

JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", re.DOTALL)
"""``endbr64``, ``bnd`` where there is one, ``jmp *slot(%rip)``."""


class Stub(NamedTuple):
    """What a stub leads to. ``address`` is where the image itself defines it, or 0."""

    name: str
    address: int


def stubs(image: Image) -> dict[int, Stub]:
    """The stubs of an x86-64 image, by their address."""
    if image.machine != "x86_64":
        return {}
    slots = dict(_slots(image))
    found: dict[int, Stub] = {}
    for section in image.sections:
        if not section.name.startswith(".plt"):
            continue
        for match in JUMP.finditer(image.content(section)):
            behind = section.address + match.end()
            slot = behind + int.from_bytes(match[1], "little", signed=True)
            if slot in slots:
                found[section.address + match.start()] = slots[slot]
    return found


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
            if info & 0xFFFFFFFF in SLOTS and info >> 32 < len(symbols):
                name, _, _, index, value, _ = symbols[info >> 32]
                yield slot, Stub(string(strings, name), value if index else 0)
