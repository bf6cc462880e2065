"""Sections of data where code is."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR

SHF_ALLOC = 2


def find_data(image: Image) -> Sequence[range]:
    """Return the sections of data among executable segments, as linkers once laid out programs."""
    return [
        range(section.address, section.address + section.size)
        for section in image.sections
        if section.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC
        and image.offset(section.address) >= 0
    ]
