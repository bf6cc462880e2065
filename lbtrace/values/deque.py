"""``std::deque``: elements in several blocks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.values.array import Elements
from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, Datum
from lbtrace.values.map import WORD
from lbtrace.values.opaque import Opaque


class Deque(Type, Struct, frozen=True, tag="deque"):
    """A record whose words at these offsets say where its elements are, of ``step`` bytes, in
    blocks of ``block`` elements.

    Of libstdc++ they are the addresses of the first element and of the end of its block, and the
    place of this block in the table of blocks; the addresses after the last element and of the
    beginning of its block, and the place of this one. Of libc++ they are the number of the first
    element, counted from the first block, and the number of elements.
    """

    name: str
    size: int
    element: Type
    step: int
    block: int
    words: tuple[int, ...]

    through = True

    def bare(self) -> Deque:
        return replace(self, element=Opaque(""))

    def is_flat(self) -> bool:
        return False

    def count(self, words: Sequence[int]) -> tuple[int, int]:
        """Return the number of elements, and how many are in the block of the first."""
        if len(words) == 2:
            start, count = words
            return count, max(0, self.block - start)
        first, end, place, last, begin, last_place = words
        blocks = (last_place - place) // WORD
        if not blocks:
            return (last - first) // self.step, (last - first) // self.step
        own = (end - first) // self.step
        return own + (blocks - 1) * self.block + (last - begin) // self.step, own

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The first member of a value are the words, the others the first elements."""
        words = [probe.reader(member) for member in value.members[0].members]
        elements = [probe.reader(member) for member in value.members[1:]]

        def read(fetched: Fetched) -> Datum:
            known = [each for each in (word(fetched) for word in words) if isinstance(each, int)]
            if len(known) < len(words):
                return FAULT
            count, own = self.count(known)
            shown = tuple([each(fetched) for each in elements[: min(count, own)]])
            return Elements(shown, count - len(shown))

        return read
