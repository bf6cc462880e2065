"""Finds the chunks that are whole in a damaged capture, wherever they are."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import BinaryIO
from zlib import crc32

from lbtrace.capture.chunk_order import ChunkOrder, FoundChunks
from lbtrace.capture.heads import HEAD_SIZE, Head, head_at
from lbtrace.capture.layout import (
    ADDITION,
    AGGREGATES,
    END,
    EVENTS,
    HEADER,
    LOSSES,
    MAGIC,
    NOTE,
    PIECE,
    PLAN,
    VERSION,
    is_possible,
)
from lbtrace.files.regular import Mapped

KNOWN = (PLAN, ADDITION, EVENTS, AGGREGATES, LOSSES, NOTE, END)
"""Types of chunks that are searched for."""

EFFORT = 8
"""The search reads at most this many times the size of the file."""


MOST = 1 << 22
"""Chunks that are read of one file, to bound the memory that a hostile one costs."""


class ChunkSearch:
    """The chunks of a capture, of which some are damaged, missing, twice there or out of place.

    ``identity`` is that of the capture, and ``plan`` the place of its plan, which are to be set
    before `chunks` is used. ``lost`` counts the chunks that are missing before the one that
    `chunks` has come to, ``following`` those that follow it; ``damaged`` the bytes of damaged
    pieces. Raises `ValueError` for an empty file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self._mapped = Mapped(self._descriptor)  # ends in zeros, should it be cut short
        self.size = len(self._mapped)
        self.data = memoryview(self._mapped)
        self.identity, self.plan = 0, HEADER.size
        self.lost = self.following = self.damaged = 0
        self.found: FoundChunks | None = None
        self._restore_effort()

    def restart(self) -> None:
        """Forget what was lost, before the chunks are read again."""
        self.lost = self.following = 0
        self._restore_effort()

    def chunks(self) -> Iterator[tuple[Head, memoryview]]:
        """Yield the head and the payload of each chunk after the plan that is whole, in the order
        in which they were written."""
        if self.found is None:
            return
        due, order = 1, self.order.chunks
        for count, each in enumerate(order, 1):
            self.following = len(order) - count
            self.lost += self.found.numbers[each] - due
            due = self.found.numbers[each] + 1
            chunk = self.whole_chunk(self.found.starts[each])
            if chunk:
                yield chunk
            else:  # the file has changed
                self.lost += 1
        self.lost = max(self.lost + self.found.pieces, bool(self.damaged))

    @cached_property
    def order(self) -> ChunkOrder:
        """Those of the chunks that were found which are of the capture, in their order."""
        found = FoundChunks() if self.found is None else self.found
        return ChunkOrder(found, self.plan, self.identity, self._checksum_at)

    def whole_chunk(self, place: int) -> tuple[Head, memoryview] | None:
        """Return the head and the payload of the chunk at ``place``; None where it is damaged."""
        start = place + HEAD_SIZE
        if start > self.size:
            return None
        head = head_at(self.data, place)
        end = start + head.length
        if end > self.size or self._effort < head.length or not is_possible(head.kind, head.length):
            return None
        self._effort -= head.length
        return (head, self.data[start:end]) if self._is_sound(head, start) else None

    def find(self, start: int) -> int:
        """Return where the next whole chunk of a known type begins; the size of the file where
        none does."""
        best = self.size
        for kind in KNOWN:
            for place in self._places(kind, start, best):
                if self._effort <= 0:
                    break
                if self.whole_chunk(place):
                    best = place
                    break
        return best

    def with_identity_of(self, start: int, place: int) -> tuple[Head, memoryview] | None:
        """Return the damaged chunk at ``start`` as it was, if nothing but the identity in its head
        is damaged, and the chunk that begins at ``place`` has the right one."""
        other = self.whole_chunk(place)
        if other is None:
            return None
        head = head_at(self.data, start).belonging_to(other[0].identity)
        begin = start + HEAD_SIZE
        is_whole = begin + head.length == place and self._is_sound(head, begin)
        return (head, self.data[begin:place]) if is_whole else None

    def after(self, place: int) -> int:
        """Return where a chunk follows the damaged one at ``place``."""
        start = place + HEAD_SIZE
        if start > self.size:
            return self.size
        end = start + head_at(self.data, place).length
        follows = bytes(self.data[end : end + len(MAGIC)])
        if end == self.size or follows[:4] in KNOWN or follows == MAGIC:
            return end
        return self.find(place + 1)

    def search(self, place: int) -> FoundChunks:
        """Find the chunks that are whole, from ``place`` on, and count the damaged pieces after the
        last."""
        found = FoundChunks()
        while place < self.size and len(found) < MOST:
            chunk = self.whole_chunk(place)
            if chunk:
                head, payload = chunk
                if head.kind == PLAN:
                    found.plans.append(len(found))
                found.starts.append(place)
                found.numbers.append(head.number)
                found.identities.append(head.identity)
                place, found.pieces = place + HEAD_SIZE + len(payload), 0
            else:
                end = self.after(place)
                headers = array("Q", self._headers(place, end))
                damaged = max(end - place - HEADER.size * len(headers), 0)
                found.headers += headers
                self.damaged += damaged
                place, found.pieces = end, found.pieces + bool(damaged)
        self.found = found
        return found

    def _headers(self, start: int, end: int) -> Iterator[int]:
        """Where headers of files stand: another capture begins there."""
        for place in self._places(MAGIC, start, end):
            header = self.data[place : place + HEADER.size]
            if header == HEADER.pack(MAGIC, VERSION):
                yield place

    def _checksum_at(self, place: int) -> int:
        return head_at(self.data, place).checksum

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
