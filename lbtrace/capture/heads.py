"""The heads of chunks.

A head has the number of its chunk in the file, and the checksum covers the head: a chunk that is
missing, twice there or out of place is noticed, and so is one whose type was damaged, which would
pass for one that a reader does not know. It says to which capture the chunk belongs, so that one of
another capture, whose probes are others, is never read with this one's plan.
"""

from __future__ import annotations

import struct
from zlib import crc32

from msgspec import Struct

from lbtrace.capture.layout import Buffer, size_of

_HEAD = struct.Struct("<4sIIII")
_CHECKSUM_SIZE = 4

HEAD_SIZE = _HEAD.size
"""Bytes."""

NUMBERS = 1 << 32
"""Numbers of chunks are below; then they begin again with 0."""


class Head(Struct, frozen=True):
    """The head of a chunk: its ``kind``, the ``length`` of its payload in bytes, its ``number`` in
    the file, the ``identity`` of its capture, the ``checksum`` of the chunk, and ``seed``, the
    checksum of the part of the head that it covers, with which that of the payload begins."""

    kind: bytes
    length: int
    number: int
    identity: int
    checksum: int
    seed: int

    def covers(self, payload: Buffer) -> bool:
        """Whether the checksum is that of a chunk with this payload."""
        return crc32(payload, self.seed) == self.checksum


def head_at(data: Buffer, place: int) -> Head:
    """Return the head at ``place``. Raises `struct.error` where ``data`` ends before it does."""
    kind, length, number, identity, checksum = _HEAD.unpack_from(data, place)
    seed = crc32(data[place : place + HEAD_SIZE - _CHECKSUM_SIZE])
    return Head(kind, length, number, identity, checksum, seed)


def head_of(kind: bytes, number: int, identity: int, *parts: Buffer) -> bytes:
    """Return the head of a chunk whose payload is these parts."""
    length = sum(map(size_of, parts))
    covered = _HEAD.pack(kind, length, number % NUMBERS, identity, 0)[:-_CHECKSUM_SIZE]
    checksum = crc32(covered)
    for part in parts:
        checksum = crc32(part, checksum)
    return covered + checksum.to_bytes(_CHECKSUM_SIZE, "little")
