"""Captures taken apart and put together, as docs/capture-format.md describes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

HEADER = 12

HEAD = 20

IDENTITY = 0x1234ABCD


def chunk(kind: bytes, payload: bytes, number: int, identity: int = IDENTITY) -> bytes:
    """A chunk with the right checksum."""
    head = struct.pack("<4sIII", kind, len(payload), number, identity)
    return head + struct.pack("<I", zlib.crc32(head + payload)) + payload


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kinds and payloads of the chunks of a capture."""
    place = HEADER
    while place < len(data):
        kind, length = struct.unpack_from("<4sI", data, place)
        yield kind, data[place + HEAD : place + HEAD + length]
        place += HEAD + length


def pieces(data: bytes) -> list[bytes]:
    """The header of a capture, and each of its chunks as it is."""
    made, place = [data[:HEADER]], HEADER
    for _, payload in chunks(data):
        made.append(data[place : place + HEAD + len(payload)])
        place += HEAD + len(payload)
    return made


def sealed(data: bytes) -> bytes:
    """A capture, damaged or not, whose chunks have the right checksums up to the first of a wrong
    length."""
    made, place = bytearray(data), HEADER
    while place + HEAD <= len(data):
        end = place + HEAD + int.from_bytes(data[place + 4 : place + 8], "little")
        covered = data[place : place + HEAD - 4]
        checksum = zlib.crc32(data[place + HEAD : end], zlib.crc32(covered))
        made[place + HEAD - 4 : place + HEAD] = struct.pack("<I", checksum)
        place = end
    return bytes(made)


def identity_of(data: bytes) -> int:
    """That of a capture."""
    return int.from_bytes(data[HEADER + 12 : HEADER + 16], "little")


def joined(header: bytes, parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A capture of chunks with the right checksums and numbers."""
    made = [chunk(kind, payload, n) for n, (kind, payload) in enumerate(parts)]
    return header[:HEADER] + b"".join(made)
