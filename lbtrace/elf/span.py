"""A part of a file, or of what was unpacked from one, that is not copied before it is needed."""

from __future__ import annotations

import mmap
from typing import NamedTuple, TypeAlias

from lbtrace.elf.strings import CUT, LONGEST

Buffer: TypeAlias = "bytes | mmap.mmap"


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
        if not 0 <= offset < self.size:
            return ""
        at, last = self.start + offset, self.start + self.size
        end = self.data.find(b"\0", at, min(at + longest + 1, last))
        if end >= 0:
            return self.data[at:end].decode("utf-8", "backslashreplace")
        if at + longest >= last:  # the table ends before the string
            return ""
        return self.data[at : at + longest].decode("utf-8", "backslashreplace") + CUT
