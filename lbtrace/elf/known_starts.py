"""Where code begins, and where none is, by other tables of a file than those of symbols.

Layouts: gabi chapter 4 (ELF header, ``.init`` and ``.fini``, relocations) and 5 (dynamic section).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import NamedTuple

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory
from lbtrace.elf.symbols import SHF_EXECINSTR

WORD = Layout("<Q")

DT_INIT, DT_FINI = 12, 13
ARRAYS = ((25, 27), (26, 28), (32, 33))
"""DT_INIT_ARRAY, DT_FINI_ARRAY and DT_PREINIT_ARRAY, each with the tag of its size."""

SHF_ALLOC = 2

SECTIONS = (".init", ".fini")
ARRAY_SECTIONS = (".init_array", ".fini_array", ".preinit_array")
"""What static programs have in the place of the dynamic section."""

POINTERS = 4096
"""Of one array, that are read."""


class KnownStarts(NamedTuple):
    """Where functions begin for ``certain``, and where ``sections`` of code do, which mostly is
    where code does; both in order."""

    certain: Sequence[int]
    sections: Sequence[int]


def known_starts(image: Image) -> KnownStarts:
    """Return where the program begins, and what the loader calls before and after it."""
    certain = {start for start in _starts(image) if image.offset(start) >= 0}
    sections = {s.address for s in image.sections if s.flags & SHF_EXECINSTR}
    return KnownStarts(sorted(certain), sorted(sections))


def find_data(image: Image) -> Sequence[range]:
    """Return the sections of data among executable segments, as linkers once laid out programs."""
    return [
        range(section.address, section.address + section.size)
        for section in image.sections
        if section.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC
        and image.offset(section.address) >= 0
    ]


def _starts(image: Image) -> Iterator[int]:
    dynamic = image.once(Dynamic)
    yield image.entry
    yield from (dynamic.tag(tag) for tag in (DT_INIT, DT_FINI))
    sections = [*map(image.section, SECTIONS)]
    yield from (section.address for section in sections if section is not None)
    memory = Memory(image)
    for array in {*_arrays(image, dynamic)}:
        data = memory.read(array.start, len(array))
        whole = data[: len(data) // WORD.size * WORD.size]
        yield from (word for (word,) in WORD.iter_unpack(whole))
        if not any(data):  # most linkers leave a copy of what the loader writes
            yield from dynamic.filled_in(array)


def _arrays(image: Image, dynamic: Dynamic) -> Iterator[range]:
    """Where arrays of pointers to functions are."""
    found = [(dynamic.tag(array), dynamic.tag(size)) for array, size in ARRAYS]
    sections = map(image.section, ARRAY_SECTIONS)
    found += [(section.address, section.size) for section in sections if section is not None]
    for address, size in found:
        if address:
            yield range(address, address + min(size, POINTERS * WORD.size))
