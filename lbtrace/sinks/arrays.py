"""Arrays that native code reads."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from lbtrace.calls._fast_path import ffi


class GrowingArray:
    """A native array, ``native``, that grows."""

    def __init__(self, type: str) -> None:
        self._type = type
        self._count = 0
        self.native = ffi.new(type, 64)

    def add(self, items: Sequence[Any]) -> int:
        """Append items, and return the number of the first."""
        first, capacity = self._count, len(self.native)
        self._count += len(items)
        if self._count > capacity:
            former, self.native = self.native, ffi.new(self._type, 2 * self._count)
            ffi.memmove(self.native, former, ffi.sizeof(former))
        self.native[first : self._count] = items
        return first


class TextList:
    """A ``struct lbt_text_list``, ``native``, and what it refers to."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        texts = list(texts)
        self._bytes = b"".join(texts)
        self._ends = array("I", accumulate(map(len, texts), initial=0))
        self.native = ffi.new("struct lbt_text_list *")
        self._held = (
            ffi.from_buffer("char[]", self._bytes),
            ffi.from_buffer("uint32_t[]", self._ends),
        )
        self.native.bytes, self.native.ends = self._held
        self.native.count = len(texts)


def encode(text: str) -> bytes:
    """Return a text, of any characters, in UTF-8."""
    return text.encode("utf-8", "surrogatepass")
