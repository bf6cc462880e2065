"""Markers of a file: the places that its authors left for tracers (USDT, ``DTRACE_PROBE``).

Notes of the type ``stapsdt`` in section ``.note.stapsdt`` describe them: systemtap's
``sys/sdt.h``, and https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.elf.image import NHDR, PT_LOAD, Image

PLACE = Layout("<QQQ")
"""The addresses of the instruction, of section ``.stapsdt.base``, and of the semaphore."""

NAME, TYPE = b"stapsdt", 3
SECTION, BASE = ".note.stapsdt", ".stapsdt.base"

LARGEST, MOST = 16 << 20, 200_000
"""Bytes of notes that are read, and markers in them. The JVM's library has 570."""


class Marker(NamedTuple):
    """One place of a marker, which may have several. Its ``arguments`` are in the assembler's
    syntax, each with its size: ``-4@%edi 8@16(%rsp)``. The ``semaphore`` is the offset in the
    file of a counter of 16 bits, which is not 0 while someone listens; 0 where there is none."""

    provider: str
    name: str
    address: int
    arguments: str = ""
    semaphore: int = 0

    @property
    def title(self) -> str:
        """How it is selected and shown: ``provider:name``."""
        return f"{self.provider}:{self.name}"


def read_markers(image: Image) -> tuple[Marker, ...]:
    """The markers of ``image``, in the order of its notes. What follows a damaged note is left
    out. Raises `BinaryError` if the file ends before its notes do."""
    section = image.section(SECTION)
    if section is None:
        return ()
    data = image.content(section)[:LARGEST]
    base = image.section(BASE)
    found: list[Marker] = []
    for described in _descriptions(data):
        marker = _read(image, described, base.address if base else 0)
        if marker is None or len(found) == MOST:
            break
        found.append(marker)
    return tuple(found)


def _descriptions(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + NHDR.size <= len(data):
        name_size, size, type = NHDR.unpack_from(data, position)
        name = position + NHDR.size
        start = name + -(-name_size // 4) * 4
        if start + size > len(data):
            return
        if type == TYPE and data[name : name + name_size].rstrip(b"\0") == NAME:
            yield data[start : start + size]
        position = start + -(-size // 4) * 4


def _read(image: Image, described: bytes, base: int) -> Marker | None:
    """The marker of a note; None where it is damaged. Programs that move a file's segments, as
    prelink does, change the addresses of sections but not those in notes."""
    texts = described[PLACE.size :].split(b"\0")
    if len(described) < PLACE.size or len(texts) < 4:
        return None
    address, linked, semaphore = PLACE.unpack_from(described)
    moved = base - linked if base and linked else 0
    provider, name, arguments = (text.decode("utf-8", "replace") for text in texts[:3])
    counter = _file_offset(image, semaphore + moved) if semaphore else 0
    return Marker(provider, name, (address + moved) % (1 << 64), arguments, counter)


def _file_offset(image: Image, address: int) -> int:
    """Where in the file the byte is that lies at virtual ``address``; 0 where it is in none."""
    for segment in image.segments:
        if segment.type == PT_LOAD and 0 <= address - segment.address < segment.size:
            return segment.offset + address - segment.address
    return 0
