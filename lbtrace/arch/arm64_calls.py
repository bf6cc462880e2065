"""Where arm64 code calls functions that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from struct import iter_unpack

LINK = 0x80000000
"""What ``bl`` has and ``b`` has not: Arm Architecture Reference Manual, C4.1.66."""


def behind_calls(code: bytes, address: int, targets: Collection[int]) -> Iterator[int]:
    """The addresses behind the calls (``bl``) of ``targets`` in ``code`` at ``address``."""
    for at, (word,) in enumerate(iter_unpack("<I", code[: len(code) // 4 * 4])):
        if word & 0xFC000000 == 0x14000000 | LINK:
            distance = word & 0x3FFFFFF
            here = address + 4 * at
            if here + 4 * (distance - (distance >> 25 << 26)) in targets:
                yield here + 4
