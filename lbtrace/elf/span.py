"""A part of a file, or of what was unpacked from one, that is not copied before it is needed."""

from __future__ import annotations

from typing import NamedTuple

from lbtrace.elf.strings import LONGEST, Buffer, string


class Span(NamedTuple):
    """``size`` bytes of ``data`` from ``start`` on."""

    data: Buffer = b""
    start: int = 0
    size: int = 0

    @property
    def bytes(self) -> bytes:
        """A copy of it."""
        return self.data[self.start : self.start + self.size]

    @property
    def view(self) -> memoryview:
        """It, to be read without a copy."""
        return memoryview(self.data)[self.start : self.start + self.size]

    def holds(self, part: str) -> bool:
        """Return whether ``part`` is somewhere in it."""
        return self.data.find(part.encode(), self.start, self.start + self.size) >= 0

    def string(self, offset: int, longest: int = LONGEST) -> str:
        """See `lbtrace.elf.strings.string`."""
        table = range(self.start, self.start + self.size)
        return string(self.data, offset, longest, table)
