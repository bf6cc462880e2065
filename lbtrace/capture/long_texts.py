"""Cuts the texts in a capture that are longer than any name.

A capture may be anybody's. A name in it, which is written with each call, may be as long as the
whole plan.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

LONGEST = 4096
"""Characters of a text that is left as it is: names of C++ templates have some thousand."""

HEADS = ((re.compile(rb"\xda"), 2), (re.compile(rb"\xdb"), 4))
"""What precedes a long text in MessagePack, str 16 and str 32, and bytes of the number that comes
next: of those of the text. Other data may look like it."""

LOOK = 64
"""Bytes after a head that are looked at."""

WORST = 3
"""Bytes at the end of these that may begin a character."""

Buffer: TypeAlias = bytes | memoryview


def shorten(payload: Buffer) -> Buffer:
    """Return MessagePack with each text of more than `LONGEST` characters cut, marked, and its
    length said. Raises `lbtrace.capture.layout.DECODING_ERRORS`."""
    if not _may_hold_long(payload):
        return payload
    return msgspec.msgpack.encode(_cut(msgspec.msgpack.decode(payload)))


def _may_hold_long(payload: Buffer) -> bool:
    size = len(payload)
    if size <= LONGEST:
        return False
    for mark, width in HEADS:
        for head in mark.finditer(payload):
            start = head.end() + width
            length = int.from_bytes(payload[head.end() : start], "big")
            if LONGEST < length <= size - start and _is_text(payload[start : start + LOOK]):
                return True
    return False


def _is_text(start: Buffer) -> bool:
    """Whether a text may begin so."""
    try:
        str(start, "utf-8")
    except UnicodeDecodeError as error:
        return error.start >= LOOK - WORST
    return True


def _cut(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _cut(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_cut(each) for each in data]
    return cut(data) if isinstance(data, str) else data


def cut(text: str) -> str:
    """Return a text, with a mark and its length where it has more than `LONGEST` characters."""
    if len(text) <= LONGEST:
        return text
    # Not within a NUL and two digits, which is a byte (`lbtrace.capture.layout.encode_plan`).
    kept = re.sub("\0.?\\Z", "", text[:LONGEST])
    return f"{kept}… ({len(text):,} characters)"
