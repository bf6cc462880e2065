"""The address ranges of a function, for deciding whether a computed jump leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lbtrace.machine.code import Code


def may_come_back(parts: Sequence[Code], branches: Iterable[int], jumps: Iterable[int]) -> bool:
    """Return whether a jump in another part of a function than the first may start it again.

    ``branches`` are the targets of conditional jumps in the first part, of which one may be a
    part without a name, ``jumps`` those of all jumps in the others.
    """
    start = parts[0].address
    return start in jumps or any(
        not any(part.address <= target < part.address + len(part.code) for part in parts)
        for target in branches
    )


def relative_ranges(parts: Sequence[Code], jump: int, first: int) -> tuple[tuple[int, int], ...]:
    """Return where the code in ``parts`` lies, as distances from ``jump``; parts that overlap or
    touch are one.

    The ``first`` bytes of the function are left out: a jump there starts it again.
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
