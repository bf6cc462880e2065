"""The address ranges of a function, for deciding whether a computed jump leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.machine.code import Code

Jumps: TypeAlias = Callable[[Code, range], Iterator[int]]
"""See `lbtrace.machine.ExitFinder.jumps`."""


def may_come_back(parts: Sequence[Code], branches: Iterable[int], jumps: Jumps) -> bool:
    """Return whether a jump in another part of a function than the first may start it again.

    ``branches`` are the targets of conditional jumps in the first part, of which one may be a
    part without a name; ``jumps`` finds jumps.
    """
    start = parts[0].address
    back = (at for part in parts[1:] for at in jumps(part, range(start, start + 1)))
    return any(True for _ in back) or any(
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


def overlap(one: Code, other: Code) -> bool:
    """Return whether two parts have bytes in common."""
    return one.address < _end(other) and other.address < _end(one)


def unite(parts: Sequence[Code], more: Code) -> tuple[Code, ...]:
    """Return ``parts`` with ``more``, joined with those that it overlaps. The function begins where
    the first one does."""
    start = parts[0].address
    into = start - more.address
    if 0 < into < len(more.code):
        before = replace(more, code=more.code[:into], limit=start)
        after = Code(more.code[into:], start, more.offset + into, more.limit)
        return unite(unite(parts, after), before)
    apart = []
    for part in parts:
        if overlap(part, more):
            more = _join(*sorted((part, more), key=lambda each: each.address))
        else:
            apart.append(part)
    return (more, *apart) if more.address == start else (*apart, more)


def _join(one: Code, other: Code) -> Code:
    rest = other.code[max(0, _end(one) - other.address) :]
    return replace(one, code=one.code + rest, limit=max(one.limit, other.limit))


def _end(part: Code) -> int:
    return part.address + len(part.code)
