"""The names of a Go program's types, by the hash that interfaces lead to.

The linker keeps all type descriptors together, between ``types`` and
``etypes`` of ``moduledata``. How they are listed differs by version, so they are recognised by
their content. Sources: Go's ``internal/abi/type.go`` (``Type``, ``Name``), ``runtime/symtab.go``
(``moduledata``).
"""

from __future__ import annotations

from lbtrace.elf.go.pclntab import GoTable
from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory

TYPES_BY_VERSION = (((1, 27), 37, 39), ((1, 20), 37, 38), ((1, 16), 35, 36), ((0, 0), 25, 26))
"""From which version on, at which words of ``moduledata`` types begin and end."""

VARINT_SINCE = (1, 17)
"""The version from which on the length of a name is a varint, before two bytes."""

ALIGNMENTS = frozenset({1, 2, 4, 8})
LAST_KIND = 26
LARGEST = 1 << 32
EXTRA_STAR = 2
"""``TFlagExtraStar``: the name is that of the pointer to the type."""

LONGEST_NAME = 1024


def names(image: Image, table: GoTable, version: tuple[int, int]) -> dict[int, tuple[str, int]]:
    """Return names and kinds by hash; empty where the descriptors are not found."""
    memory = Memory(image)
    known = version if version != (0, 0) else (99, 0)
    first, last = next((f, e) for since, f, e in TYPES_BY_VERSION if known >= since)
    start = memory.word(table.moduledata + 8 * first)
    end = memory.word(table.moduledata + 8 * last)
    data = memory.read(start, end - start) if 0 < start < end else b""
    words = memoryview(data[: len(data) // 8 * 8]).cast("Q")
    found: dict[int, tuple[str, int]] = {}
    for at in range(len(words) - 5):
        size, traits = words[at], words[at + 2]
        # Nearly everything that is not a descriptor fails here.
        if size >= LARGEST or words[at + 1] > size or not 0 < (traits >> 56 & 31) <= LAST_KIND:
            continue
        if traits >> 40 & 255 not in ALIGNMENTS or traits >> 48 & 255 not in ALIGNMENTS:
            continue
        name = _name(data, words[at + 5] & 0xFFFF_FFFF, varint=known >= VARINT_SINCE)
        if name:
            star = traits >> 32 & EXTRA_STAR and name.startswith("*")
            kind = traits >> 56 & 31
            found[traits & 0xFFFF_FFFF] = name[1:] if star else name, kind
    return found


def _name(data: bytes, at: int, *, varint: bool) -> str:
    """The name at an offset into the types, or ``""`` where there is none."""
    if not 0 < at < len(data) - 3 or data[at] > 15:
        return ""
    length, start = data[at + 1] << 8 | data[at + 2], at + 3
    if varint:
        length, start = data[at + 1] & 0x7F, at + 2
        if data[at + 1] > 0x7F:
            length, start = length | data[at + 2] << 7, at + 3
    if not 0 < length <= LONGEST_NAME:
        return ""
    try:
        name = data[start : start + length].decode()
    except UnicodeDecodeError:
        return ""
    return name if name.isprintable() else ""
