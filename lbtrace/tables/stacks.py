"""From where functions are called: action ``stacks``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

from msgspec import Struct

from lbtrace.model import NO_BINARY, Aggregate, Frame, Plan
from lbtrace.model.calls import STACK_ENDS
from lbtrace.model.events import KERNEL_FILE
from lbtrace.model.wire_limits import SLOT_DURATION
from lbtrace.probes import PROBES
from lbtrace.tables.table import WORD, Table, to_signed
from lbtrace.text import clean, duration

OUTERMOST = "outermost"

CALLS = frozenset({"opens", "closes"})
"""The roles of probes that are hit in the function that is called."""


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
    found: dict[tuple[int, bool, tuple[int, ...], int], list[Aggregate]] = {}
    for row in aggregated:
        probe = plan.probes[row.probe]
        is_call = probe.role in CALLS and (probe.source == "uprobe" or _has_returned(row, plan))
        callers = row.stack
        if is_call and not _has_returned(row, plan):
            inlined = takewhile(lambda n: n < len(frames) and frames[n].inlined, callers)
            callers = callers[len(list(inlined)) + 1 :]
        found.setdefault((probe.function, is_call, callers, row.end), []).append(row)
    made = [
        _stack(plan, function, is_call, rows, [frames[n] for n in callers if n < len(frames)])
        for (function, is_call, callers, _), rows in found.items()
        if function >= 0
    ]
    return in_order(made)


def _has_returned(row: Aggregate, plan: Plan) -> bool:
    return PROBES[plan.probes[row.probe].source].at_return


def in_order(rows: Iterable[Stack]) -> list[Stack]:
    """Return rows, the largest weight first."""
    return sorted(rows, key=lambda row: (-row.weight, row.name, [f.name for f in row.frames]))


def _stack(
    plan: Plan, number: int, is_call: bool, rows: Sequence[Aggregate], frames: Sequence[Frame]
) -> Stack:
    function, path = plan.functions[number], plan.path_of(plan.functions[number].binary)
    if is_call:  # where in it the probe is does not matter, or it has returned already
        module, _, name = function.name.rpartition(":")
        own = Frame(name, 0, f"[{module}]" if module else KERNEL_FILE)
        own = own if function.binary == NO_BINARY else Frame(function.name, 0, path)
        frames = [own, *frames]
    totals = [sum(words) & WORD for words in zip(*(row.words for row in rows), strict=False)]
    slots = {plan.probes[row.probe].aggregates for row in rows}
    timed = any(PROBES[plan.probes[row.probe].source].timed for row in rows)
    takes = timed or slots != {-1}
    return Stack(
        name=function.name,
        binary=path,
        count=sum(row.count for row in rows),
        frames=tuple(frames),
        end=STACK_ENDS.get(rows[0].end, "unknown"),
        total=_total(plan, rows, totals[0]) if takes and totals else None,
        unread=totals[1] if takes and len(totals) > 1 else 0,
        unit="ns" if timed or slots == {SLOT_DURATION} else "",
    )


def _total(plan: Plan, rows: Sequence[Aggregate], word: int) -> int:
    """What is added up, signed unless no value is."""
    groupings = (plan.probes[row.probe].grouping for row in rows)
    return word if all(g and any(g.unsigned) for g in groupings) else to_signed(word)


def weight_text(row: Stack) -> str:
    """Return the weight as text, and how often the value could not be read."""
    text = duration(row.weight) if row.unit else str(row.weight)
    return f"{text} ({row.unread} not read)" if row.unread else text


def describe(frame: Frame) -> str:
    """Return a frame as text, fit for a terminal."""
    module = f" {frame.module}" if frame.module else ""
    if not frame.name:
        where = f"{os.path.basename(frame.binary)}+" if frame.binary and not module else ""
        return clean(f"[unknown] {where}{frame.offset:#x}{module}")
    place = f"+{frame.offset:#x}" if frame.offset else ""
    return clean(f"{frame.name}{place}{module}{frame.where}")


def described(row: Stack) -> Iterator[str]:
    """Yield the frames as text, and at last why there are no further ones, if there may be some."""
    yield from map(describe, row.frames)
    if row.end != OUTERMOST:
        yield cut(row.end)


def cut(end: str) -> str:
    """Return why a stack has no further frames as text, in place of these."""
    return f"[cut: {end}]"


Step: TypeAlias = tuple[str, str]
"""A function, or where there is no name what there is in its place, and its file."""


def steps(frames: Sequence[Frame], end: str = OUTERMOST) -> Iterator[Step]:
    """Yield the functions of a stack, the outermost first."""
    if end != OUTERMOST:
        yield cut(end), ""
    for frame in reversed(frames):
        name = clean(frame.name) or describe(frame)
        mark = "_[i]" if frame.inlined else "_[k]" if frame.name and frame.module else ""
        yield f"{name}{mark}", frame.binary


def fold(rows: Sequence[Stack]) -> list[tuple[tuple[str, ...], int]]:
    """Return the weights of the paths that lead to functions, by names alone: outermost first."""
    weights: dict[tuple[str, ...], int] = {}
    for row in rows:
        path = tuple(name for name, _ in steps(row.frames, row.end))
        weights[path] = weights.get(path, 0) + row.weight
    return sorted(weights.items())


def folded_line(path: Iterable[str], weight: int) -> str:
    """Return a line for a path: ``main;parse;malloc 1234``."""
    # The last space is before the number: others may be in names.
    return f"{';'.join(name.replace(';', ':') for name in path)} {weight}\n"


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
