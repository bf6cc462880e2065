"""Where a function's code lies, as jumps whose targets are computed ask."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.arch import Code


def inside(parts: Sequence[Code], jump: int, first: int) -> tuple[tuple[int, int], ...]:
    """Where the code in ``parts`` lies, as distances from ``jump``; parts that overlap or
    touch are one.

    The ``first`` bytes of the function are left out: whoever jumps there begins it anew.
    """
    ranges = sorted(
        (part.address + first * (part is parts[0]) - jump, part.address + len(part.code) - jump)
        for part in parts
    )
    found = ranges[:1]
    for low, high in ranges[1:]:
        start, end = found[-1]
        if low <= end:
            found[-1] = start, max(end, high)
        else:
            found.append((low, high))
    return tuple(found)
