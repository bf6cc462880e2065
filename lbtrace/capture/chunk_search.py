"""Finds the chunks that are whole in a damaged capture, wherever they are."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import BinaryIO
from zlib import crc32

from lbtrace.capture.heads import Head, head_at, size_of_head
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    END,
    EVENTS,
    HEADER,
    LAST_UNNUMBERED,
    LOSSES,
    NOTE,
    PIECE,
    PLAN,
    VERSION,
    is_possible,
)
from lbtrace.elf.regular import Mapped

KNOWN = (PLAN, ADDITION, EVENTS, AGGREGATES, LOSSES, NOTE, END)
"""Types of chunks that are searched for."""

EFFORT = 8
"""The search reads at most this many times the size of the file."""


MOST = 1 << 22
"""Chunks that are read of one file, to bound the memory that a hostile one costs."""


class ChunkSearch:
    """The chunks of a capture, of which some are damaged, missing, twice there or out of place.

    ``version`` is that of the format. ``lost`` counts the chunks that are missing before the one
    that `chunks` has come to, or the damaged pieces if chunks have no numbers; ``damaged`` the
    bytes of damaged pieces, ``doubles`` the chunks that are there once more. Raises `ValueError`
    for an empty file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self._mapped = Mapped(self._descriptor)  # ends in zeros, should it be cut short
        self.size = len(self._mapped)
        self.data = memoryview(self._mapped)
        self.version = VERSION
        self.lost = self.damaged = self.doubles = 0
        self._starts, self._numbers = array("Q"), array("I")
        self._pieces = array("I")
        self._restore_effort()

    def restart(self) -> None:
        """Forget what was lost, before the chunks are read again."""
        self.lost = 0
        self._restore_effort()

    def tell_version(self, said: int) -> None:
        """Set the version to the first of those that may be in which the plan is sound, else
        to what the header has ``said``."""
        for version in dict.fromkeys((said, VERSION, LAST_UNNUMBERED)):
            self.version = version
            if self.whole_chunk(HEADER.size):
                return
        self.version = said

    def chunks(self, start: int) -> Iterator[tuple[Head, memoryview]]:
        """Yield the head and the payload of each chunk that is whole, from ``start`` on, in the
        order in which they were written."""
        if not self._pieces:
            self._search(start)
        due = 1
        for each in self._order():
            if self.version > LAST_UNNUMBERED:
                self.lost += self._numbers[each] - due
                due = self._numbers[each] + 1
            else:
                self.lost += self._pieces[each]
            chunk = self.whole_chunk(self._starts[each])
            if chunk:
                yield chunk
            else:  # the file has changed
                self.lost += 1
        self.lost = max(self.lost + self._pieces[-1], bool(self.damaged))

    def whole_chunk(self, place: int) -> tuple[Head, memoryview] | None:
        """Return the head and the payload of the chunk at ``place``; None where it is damaged."""
        start = place + size_of_head(self.version)
        if start > self.size:
            return None
        head = head_at(self.data, place, self.version)
        end = start + head.length
        if end > self.size or self._effort < head.length or not is_possible(head.kind, head.length):
            return None
        self._effort -= head.length
        return (head, self.data[start:end]) if self._is_sound(head, start) else None

    def find(self, start: int, kinds: tuple[bytes, ...] = KNOWN) -> int:
        """Return where the next whole chunk of one of the ``kinds`` begins; the size of the file
        where none does."""
        best = self.size
        for kind in kinds:
            for place in self._places(kind, start, best):
                if self._effort <= 0:
                    break
                if self.whole_chunk(place):
                    best = place
                    break
        return best

    def after(self, place: int) -> int:
        """Return where a chunk follows the damaged one at ``place``."""
        start = place + size_of_head(self.version)
        if start > self.size:
            return self.size
        end = start + head_at(self.data, place, self.version).length
        if end == self.size or bytes(self.data[end : end + 4]) in KNOWN:
            return end
        return self.find(place + 1)

    def _search(self, place: int) -> None:
        """Find the chunks that are whole, and count the damaged pieces before each and after the
        last."""
        pieces = 0
        while place < self.size and len(self._starts) < MOST:
            chunk = self.whole_chunk(place)
            if chunk:
                self._starts.append(place)
                self._numbers.append(max(chunk[0].number, 0))
                self._pieces.append(pieces)
                place, pieces = place + size_of_head(self.version) + len(chunk[1]), 0
            else:
                end = self.after(place)
                self.damaged += end - place
                place, pieces = end, pieces + 1
        self._pieces.append(pieces)

    def _order(self) -> Iterable[int]:
        """The chunks that were found in the order in which they were written, each once."""
        count, numbers = len(self._starts), self._numbers
        if all(before < after for before, after in pairwise(numbers)):
            return range(count)
        if self.version <= LAST_UNNUMBERED:
            return range(count)
        first = {numbers[each]: each for each in reversed(range(count))}
        self.doubles = count - len(first)
        return (first[number] for number in sorted(first))

    def _restore_effort(self) -> None:
        self._effort = EFFORT * self.size

    def _is_sound(self, head: Head, start: int) -> bool:
        checksum, end = head.seed, start + head.length
        for place in range(start, end, PIECE):
            checksum = crc32(self.data[place : min(end, place + PIECE)], checksum)
            self._leave(place, min(end, place + PIECE))
        return checksum == head.checksum

    def _leave(self, start: int, end: int) -> None:
        """Give back the memory of a piece that has been read; it can be read again."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        if end - first >= PIECE // 2:
            self._mapped.madvise(mmap.MADV_DONTNEED, first, end - first)

    def _places(self, text: bytes, start: int, end: int) -> Iterator[int]:
        """Where ``text`` occurs in the file, outside its holes (lseek(2))."""
        while start < end:
            try:
                first = os.lseek(self._descriptor, start, os.SEEK_DATA)
                last = os.lseek(self._descriptor, first, os.SEEK_HOLE)
            except OSError:  # nothing but a hole to its end, or it was cut short
                return
            for begin in range(first, min(last, end), PIECE):
                piece = bytes(self.data[begin : min(begin + PIECE + len(text) - 1, end)])
                self._leave(begin, min(begin + PIECE, end))
                place = piece.find(text)
                while place >= 0:
                    yield begin + place
                    place = piece.find(text, place + 1)
            start = last
