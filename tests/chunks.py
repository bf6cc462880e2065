"""Captures taken apart and put together, as docs/capture-format.md describes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

HEADER = 12

PRESENT = 7

IDENTITY = 0x1234ABCD


def head_size(version: int) -> int:
    return 20 if version > 6 else 16 if version > 5 else 12


def version_of(data: bytes) -> int:
    return int.from_bytes(data[8:12], "little")


def chunk(
    kind: bytes, payload: bytes, number: int, version: int = PRESENT, identity: int = IDENTITY
) -> bytes:
    """A chunk with the right checksum."""
    if version < 6:
        return struct.pack("<4sII", kind, len(payload), zlib.crc32(payload)) + payload
    head = struct.pack("<4sII", kind, len(payload), number)
    if version > 6:
        head += struct.pack("<I", identity)
    return head + struct.pack("<I", zlib.crc32(head + payload)) + payload


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kinds and payloads of the chunks of a capture."""
    size, place = head_size(version_of(data)), HEADER
    while place < len(data):
        kind, length = struct.unpack_from("<4sI", data, place)
        yield kind, data[place + size : place + size + length]
        place += size + length


def pieces(data: bytes) -> list[bytes]:
    """The header of a capture, and each of its chunks as it is."""
    size = head_size(version_of(data))
    made, place = [data[:HEADER]], HEADER
    for _, payload in chunks(data):
        made.append(data[place : place + size + len(payload)])
        place += size + len(payload)
    return made


def sealed(data: bytes) -> bytes:
    """A capture, damaged or not, whose chunks have the right checksums up to the first of a wrong
    length."""
    made, version, place = bytearray(data), version_of(data), HEADER
    size = head_size(version)
    while place + size <= len(data):
        end = place + size + int.from_bytes(data[place + 4 : place + 8], "little")
        covered = data[place : place + size - 4] if version > 5 else b""
        checksum = zlib.crc32(data[place + size : end], zlib.crc32(covered))
        made[place + size - 4 : place + size] = struct.pack("<I", checksum)
        place = end
    return bytes(made)


def identity_of(data: bytes) -> int:
    """That of a capture of the present version."""
    return int.from_bytes(data[HEADER + 12 : HEADER + 16], "little")


def joined(header: bytes, parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A capture of chunks with the right checksums and numbers."""
    version = version_of(header)
    made = [chunk(kind, payload, n, version) for n, (kind, payload) in enumerate(parts)]
    return header[:HEADER] + b"".join(made)
