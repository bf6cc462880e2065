"""Whether a file was made by the Go compiler, and by which version.

Source: Go's ``debug/buildinfo`` (the section ``.go.buildinfo``): a header of
16 bytes whose last two are the pointer size and flags; from Go 1.18 on (flag
2) the version follows at byte 32 with its length as a varint, before it byte
16 holds a pointer to a Go string. Plugins of old versions lack that section, but
have a note with Go's build ID.
"""

from __future__ import annotations

import re

from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory

MAGIC = b"\xff Go buildinf:"
TABLES = (".gopclntab", ".data.rel.ro.gopclntab")
"""Names of the section of the function table; the second in position-independent files."""

MARKS = (*TABLES, ".go.buildinfo", ".note.go.buildid")
"""Sections that only Go makes."""

INLINE_STRINGS = 2
LONGEST_VERSION = 256


def is_go(image: Image) -> bool:
    """Return whether ``image`` holds Go code: it has Go's function table, build information or
    note."""
    return any(s.name in MARKS for s in image.sections)


def version_text(image: Image) -> str:
    """Return the version of the compiler as it calls itself, ``go1.19.8``; ``""`` if unknown."""
    section = image.section(".go.buildinfo")
    if section is None or section.size < 32:
        return ""
    memory = Memory(image)
    data = memory.read(section.address, section.size)
    if not data.startswith(MAGIC):
        return ""
    if data[15] & INLINE_STRINGS:
        length, start = _varint(data, 32)
        raw = data[start : start + min(length, LONGEST_VERSION)]
    else:
        header = memory.word(section.address + 16)
        raw = memory.read(memory.word(header), min(memory.word(header + 8), LONGEST_VERSION))
    return raw.decode("utf-8", "replace")


def version(image: Image) -> tuple[int, int]:
    """Major and minor version of the compiler; (0, 0) if unknown (``devel``)."""
    found = re.search(r"go(\d+)\.(\d+)", version_text(image))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A base-128 number and the position after it."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
