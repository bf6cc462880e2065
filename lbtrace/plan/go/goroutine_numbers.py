"""Where Go keeps the numbers of goroutines."""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.elf import debugfile
from lbtrace.elf.image import Image

FIRST_KNOWN, LAST_KNOWN = (1, 9), (1, 27)

GOID = 152
GOID_BY_VERSION = {(1, 23): 160, (1, 24): 160}
"""Offset of ``runtime.g.goid`` on 64-bit machines, from the DWARF of each of the known
versions; of others it is read there. ``g.stack.hi`` has always been the second word."""


def find_offset(image: Image, version: tuple[int, int]) -> int:
    """Return the offset of ``runtime.g.goid`` in a program of this version of Go."""
    known = FIRST_KNOWN <= version <= LAST_KNOWN
    debug = None if known else debugfile.find(image)
    if debug is not None:
        from lbtrace.dwarf import go_prototypes  # imported here because it imports pyelftools

        offset = go_prototypes.member_offset(image, debug, "runtime.g", "goid")
        if offset is not None:
            return offset
    return GOID_BY_VERSION.get(version, GOID)


def notes(image: Image, version: tuple[int, int]) -> Iterator[str]:
    """Yield a warning to the user where the offset is only assumed."""
    if version > LAST_KNOWN and debugfile.find(image) is None:
        yield (
            f"Go {'.'.join(map(str, version))} is newer than this lbtrace: if calls"
            " of different goroutines are mixed up, update it"
        )
