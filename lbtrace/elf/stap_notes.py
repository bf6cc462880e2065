"""Markers of a file: the places that its authors left for tracers (USDT, ``DTRACE_PROBE``).

Notes of the type ``stapsdt`` in section ``.note.stapsdt`` describe them: systemtap's
``sys/sdt.h``, and https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.elf import strings
from lbtrace.elf.image import PT_LOAD, Image, read_notes

PLACE = Layout("<QQQ")
"""The addresses of the instruction, of section ``.stapsdt.base``, and of the semaphore."""

NAME, TYPE = b"stapsdt", 3
SECTION, BASE = ".note.stapsdt", ".stapsdt.base"

COUNTER, PF_W = 2, 2
"""Bytes of a counter, and the flag of segments that may be written (gabi, chapter 5)."""

NOT_LOADED = "its note names a counter that is not in what is loaded of the file"
ODD = "its note names a counter at an odd address, which the kernel does not raise"
NOT_WRITTEN = "its note names a counter in memory that may not be written"
"""Why a marker's counter cannot be raised, as clauses for users."""

LARGEST, MOST = 2 << 20, 20_000
"""Bytes of notes that are read, and markers in them. The JVM's library has 570 in 60 KB."""

NAME_SIZE, ARGUMENTS = 1024, 4096
"""Bytes of a name, and of a marker's arguments. What is cut ends with a mark that no operand has:
the last one is shown as unread, not as another."""


class Marker(NamedTuple):
    """One place of a marker, which may have several. Its ``arguments`` are in the assembler's
    syntax, each with its size: ``-4@%edi 8@16(%rsp)``. The ``semaphore`` is the offset in the
    file of a counter of 16 bits, which is not 0 while someone listens; 0 where there is none.
    ``misplaced`` says, as a clause, why the kernel cannot raise the one that the note names."""

    provider: str
    name: str
    address: int
    arguments: str = ""
    semaphore: int = 0
    misplaced: str = ""

    @property
    def title(self) -> str:
        """How it is selected and shown: ``provider:name``."""
        return f"{self.provider}:{self.name}"


class _Notes(NamedTuple):
    """What was read of a file's notes: ``markers``, and whether there are ``more``."""

    markers: tuple[Marker, ...] = ()
    more: bool = False


def read_markers(image: Image) -> tuple[Marker, ...]:
    """The markers of ``image``, in the order of its notes, read once. What follows a damaged note
    is left out, and what is too much. Raises `BinaryError` if the file ends before its notes do."""
    return image.once(_read_notes).markers


def unread(image: Image) -> list[str]:
    """What to say of markers that were not read because there are too many."""
    notes = image.once(_read_notes)
    if not notes.more:
        return []
    return [f"{image.path}: only its first {len(notes.markers):,} markers (USDT) are read"]


def _read_notes(image: Image) -> _Notes:
    section = image.section(SECTION)
    if section is None:
        return _Notes()
    span = image.span(section)
    data = span.data[span.start : span.start + min(span.size, LARGEST)]
    base = image.section(BASE)
    found: list[Marker] = []
    for type, name, described in read_notes(data):
        if type != TYPE or name != NAME:
            continue
        if len(found) == MOST:
            return _Notes(tuple(found), more=True)
        marker = _read(image, described, base.address if base else 0)
        if marker is None:
            return _Notes(tuple(found))
        found.append(marker)
    return _Notes(tuple(found), span.size > LARGEST)


def _read(image: Image, described: bytes, base: int) -> Marker | None:
    """The marker of a note; None where it is damaged. Programs that move a file's segments, as
    prelink does, change the addresses of sections but not those in notes."""
    if len(described) < PLACE.size or described.count(b"\0", PLACE.size) < 3:
        return None
    address, linked, semaphore = PLACE.unpack_from(described)
    moved = base - linked if base and linked else 0
    texts = described[PLACE.size :].split(b"\0", 3)
    provider, name, arguments = map(_text, texts, (NAME_SIZE, NAME_SIZE, ARGUMENTS))
    counter, misplaced = 0, ""
    if semaphore:
        counter, misplaced = _counter(image, (semaphore + moved) % (1 << 64))
    return Marker(provider, name, (address + moved) % (1 << 64), arguments, counter, misplaced)


def _text(text: bytes, longest: int) -> str:
    cut = strings.CUT if len(text) > longest else ""
    return text[:longest].decode("utf-8", "replace") + cut


def _counter(image: Image, address: int) -> tuple[int, str]:
    """Where in the file the counter at virtual ``address`` is, and why the kernel cannot raise it:
    it wants an even offset, of what is mapped to be written (kernel/events/uprobes.c,
    ``uprobe_register`` and ``valid_ref_ctr_vma``)."""
    segment = next(
        (
            each
            for each in image.segments
            if each.type == PT_LOAD and 0 <= address - each.address <= each.size - COUNTER
        ),
        None,
    )
    if segment is None:
        return 0, NOT_LOADED
    offset = segment.offset + address - segment.address
    if offset % COUNTER:
        return 0, ODD
    return (offset, "") if segment.flags & PF_W else (0, NOT_WRITTEN)
