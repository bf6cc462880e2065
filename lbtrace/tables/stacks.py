"""From where functions are called: action ``stacks``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lbtrace.model import Aggregate, Frame, Plan
from lbtrace.model.calls import STACK_ENDS
from lbtrace.model.wire_limits import SLOT_DURATION
from lbtrace.probes import PROBES
from lbtrace.tables.table import WORD, Table, to_signed
from lbtrace.text import clean, duration

OUTERMOST = "outermost"


class Stack(Struct, frozen=True):
    """How often a function, ``name`` in the file ``binary``, was called from one place: ``frames``
    are its stack, the innermost first. ``end`` says why there are no further ones, as
    `lbtrace.model.Callers.end` does. ``total`` is what a value amounts to in these calls, but for
    those in which it was ``unread``; None where none was asked for. ``unit`` is ``ns`` of
    durations, else empty.
    """

    name: str
    binary: str
    count: int
    frames: tuple[Frame, ...]
    end: str = OUTERMOST
    total: int | None = None
    unread: int = 0
    unit: str = ""

    @property
    def weight(self) -> int:
        """The total, where a value was asked for, else the count."""
        return self.count if self.total is None else self.total


def count_stacks(
    plan: Plan, aggregated: Sequence[Aggregate], frames: Sequence[Frame]
) -> list[Stack]:
    """Return a row for each function and stack, of all processes; the largest weight first."""
    found: dict[tuple[int, tuple[int, ...], int], list[Aggregate]] = {}
    for row in aggregated:
        key = plan.probes[row.probe].function, row.stack, row.end
        found.setdefault(key, []).append(row)
    made = [
        _stack(plan, key[0], rows, [frames[n] for n in key[1] if n < len(frames)])
        for key, rows in found.items()
        if key[0] >= 0
    ]
    return sorted(made, key=lambda row: (-row.weight, row.name, [f.name for f in row.frames]))


def _stack(plan: Plan, number: int, rows: Sequence[Aggregate], frames: Sequence[Frame]) -> Stack:
    function, path = plan.functions[number], plan.path_of(plan.functions[number].binary)
    if any(PROBES[plan.probes[row.probe].source].at_return for row in rows):
        frames = [Frame(function.name, 0, path), *frames]  # it has returned already
    totals = [sum(words) & WORD for words in zip(*(row.words for row in rows), strict=False)]
    slots = {plan.probes[row.probe].aggregates for row in rows}
    takes = slots != {-1}
    return Stack(
        name=function.name,
        binary=path,
        count=sum(row.count for row in rows),
        frames=tuple(frames),
        end=STACK_ENDS.get(rows[0].end, "unknown"),
        total=to_signed(totals[0]) if takes and totals else None,
        unread=totals[1] if takes and len(totals) > 1 else 0,
        unit="ns" if slots == {SLOT_DURATION} else "",
    )


def weight_text(row: Stack) -> str:
    """Return the weight as text, and how often the value could not be read."""
    text = duration(row.weight) if row.unit else str(row.weight)
    return f"{text} ({row.unread} not read)" if row.unread else text


def describe(frame: Frame) -> str:
    """Return a frame as text, fit for a terminal."""
    if not frame.name:
        where = f"{os.path.basename(frame.binary)}+" if frame.binary else ""
        return clean(f"[unknown] {where}{frame.offset:#x}")
    return clean(f"{frame.name}+{frame.offset:#x}" if frame.offset else frame.name)


def described(row: Stack) -> Iterator[str]:
    """Yield the frames as text, and at last why there are no further ones, if there may be some."""
    yield from map(describe, row.frames)
    if row.end != OUTERMOST:
        yield f"[cut: {row.end}]"


def fold(rows: Sequence[Stack]) -> list[tuple[tuple[str, ...], int]]:
    """Return the weights of the paths that lead to functions, by names alone: outermost first."""
    weights: dict[tuple[str, ...], int] = {}
    for row in rows:
        path = tuple(_folded(row))
        weights[path] = weights.get(path, 0) + row.weight
    return sorted(weights.items())


def folded_lines(rows: Sequence[Stack]) -> Iterator[str]:
    """Yield a line for each path: ``main;parse;malloc 1234``."""
    for path, weight in fold(rows):
        yield f"{';'.join(name.replace(';', ':') for name in path)} {weight}"


def _folded(row: Stack) -> Iterator[str]:
    if row.end != OUTERMOST:
        yield f"[cut: {row.end}]"
    for frame in reversed(row.frames):
        yield clean(frame.name) or describe(frame)


TABLE = Table(
    row=Stack,
    rows=count_stacks,
    heading=("COUNT", "FUNCTION"),
    cells=lambda row: (weight_text(row), row.name),
    ranks=lambda row: (row.weight, row.name),
    drawn=lambda row: [f"    {line}" for line in described(row)],
    takes_value=None,
    takes_frames=True,
    keyed=False,
)
