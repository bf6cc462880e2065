"""The heads of chunks, of each version of the format.

From version 6 on a head has the number of its chunk in the file, and the checksum covers the head:
a chunk that is missing, twice there or out of place is noticed, and so is one whose type was
damaged, which would pass for one that a reader does not know.
"""

from __future__ import annotations

import struct
from zlib import crc32

from msgspec import Struct

from lbtrace.capture.layout import LAST_UNNUMBERED, Buffer, size_of

_NUMBERED = struct.Struct("<4sIII")
_COVERED = struct.Struct("<4sII")
_UNNUMBERED = struct.Struct("<4sII")

UNKNOWN = -1
"""The number of a chunk of a version without numbers."""

NUMBERS = 1 << 32
"""Numbers of chunks are below; then they begin again with 0."""


class Head(Struct, frozen=True):
    """The head of a chunk: its ``kind``, the ``length`` of its payload in bytes, its ``number`` in
    the file, the ``checksum`` of the chunk, and ``seed``, the checksum of the part of the head
    that it covers, with which that of the payload begins."""

    kind: bytes
    length: int
    number: int
    checksum: int
    seed: int = 0

    def covers(self, payload: Buffer) -> bool:
        """Whether the checksum is that of a chunk with this payload."""
        return crc32(payload, self.seed) == self.checksum


def size_of_head(version: int) -> int:
    """Return the size of heads in a file of this version, in bytes."""
    return (_UNNUMBERED if version <= LAST_UNNUMBERED else _NUMBERED).size


def head_at(data: Buffer, place: int, version: int) -> Head:
    """Return the head at ``place``. Raises `struct.error` where ``data`` ends before it does."""
    if version <= LAST_UNNUMBERED:
        kind, length, checksum = _UNNUMBERED.unpack_from(data, place)
        return Head(kind, length, UNKNOWN, checksum)
    kind, length, number, checksum = _NUMBERED.unpack_from(data, place)
    seed = crc32(data[place : place + _COVERED.size])
    return Head(kind, length, number, checksum, seed)


def head_of(kind: bytes, number: int, *parts: Buffer) -> bytes:
    """Return the head of a chunk of the present version whose payload is these parts."""
    length = sum(map(size_of, parts))
    checksum = crc32(_COVERED.pack(kind, length, number % NUMBERS))
    for part in parts:
        checksum = crc32(part, checksum)
    return _NUMBERED.pack(kind, length, number % NUMBERS, checksum)
