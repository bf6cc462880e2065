"""Where x86-64 code calls functions that are asked for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from iced_x86 import Decoder

CALL = re.compile(rb"\xe8(?=(.{4}))", re.DOTALL)
"""Whatever may be a ``call`` of a relative address: Intel SDM volume 2, CALL."""

SIZE = 5


def behind_calls(
    code: bytes, address: int, targets: Collection[int], starts: Sequence[int]
) -> Iterator[int]:
    """The addresses behind the calls of ``targets`` in ``code`` at ``address``.

    What looks like a call is decoded from the last of ``starts`` before it, which are in
    order; without one it is none.
    """
    for match in CALL.finditer(code):
        at = address + match.start()
        behind = at + SIZE
        if behind + int.from_bytes(match[1], "little", signed=True) not in targets:
            continue
        index = bisect_right(starts, at) - 1
        if index < 0 or starts[index] < address:
            continue
        line = Decoder(64, code[starts[index] - address : behind - address], ip=starts[index])
        if any(instruction.ip == at for instruction in line):
            yield behind
