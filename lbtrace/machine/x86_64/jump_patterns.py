"""Whatever may be a call or a jump in x86-64 code, which is not decoded for this."""

from __future__ import annotations

import re
from collections.abc import Iterator

CALL = re.compile(rb"[\xe8\xe9](?=(.{4}))|\xeb(?=(.))", re.DOTALL)
"""Whatever may be a ``call`` or ``jmp`` to a relative address."""

JUMP = re.compile(
    rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))|\xeb(?=(.))"
    rb"|\xff[\x20-\x27\x60-\x67\xa0-\xa7\xe0-\xe7]",
    re.DOTALL,
)
"""Whatever may be a jump: relative ones, or to where a register or memory says."""


def reached(code: bytes, start: int) -> Iterator[int]:
    """Yield the addresses to which code at ``start`` may jump, or which it may call."""
    for match in CALL.finditer(code):
        distance = match[1] or match[2]
        end = start + match.end() + len(distance)
        yield end + int.from_bytes(distance, "little", signed=True)


def jumps(code: bytes) -> Iterator[int | None]:
    """Yield where in ``code``, or outside of it, jumps lead; None for those through pointers."""
    for match in JUMP.finditer(code):
        distance = match[1] or match[2]
        if distance is None:
            yield None
        else:
            end = match.end() + len(distance)
            yield end + int.from_bytes(distance, "little", signed=True)
