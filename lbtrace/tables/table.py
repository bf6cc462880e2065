"""A table of aggregated values, as a file of `lbtrace.tables` describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from msgspec import Struct

from lbtrace.model import Aggregate, Function, Plan
from lbtrace.text import clean

WORD = (1 << 64) - 1
"""What is aggregated are numbers of 64 bits."""


def add_words(cpus: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the sums of what each CPU has aggregated, word by word."""
    return tuple(sum(words) & WORD for words in zip(*cpus, strict=True))


def to_signed(word: int) -> int:
    """Return a word as a number that may be negative."""
    return word - (1 << 64) if word >> 63 else word


class Table(Struct, frozen=True):
    """How what an action aggregates becomes rows, and how these are shown.

    ``rows`` makes the rows, msgspec structs of type ``row``, of all that the probes of the action
    have aggregated. Their fields are those of the JSON records, whose type is the action's name. As
    text each has ``cells``, under a ``heading``, and lines below if they are ``drawn``. An action
    that ``takes_value`` gets it by ``arg``: an argument, ``retval`` or ``duration``; where that is
    None, it may do without. Where it ``takes_frames``, ``rows`` also gets the frames of
    `lbtrace.model.Aggregates`, which ``Aggregate.stack`` is about. ``merge`` makes one of the words
    that each CPU has aggregated, but for the first, the number of hits.
    """

    row: type[Struct]
    rows: Callable[..., Sequence[Any]]
    heading: tuple[str, ...]
    cells: Callable[[Any], tuple[str, ...]]
    drawn: Callable[[Any], Sequence[str]] = lambda _: ()
    takes_value: bool | None = False
    takes_frames: bool = False
    merge: Callable[[Sequence[Sequence[int]]], tuple[int, ...]] = add_words


def lines(table: Table, rows: Sequence[Any]) -> Iterator[str]:
    """Yield a table as text, fit for a terminal: the last column is aligned to the left, the others
    to the right. Columns that have nothing in any row are left out."""
    texts = [table.heading, *(tuple(clean(cell) for cell in table.cells(row)) for row in rows)]
    used = [not rows or any(column[1:]) for column in zip(*texts, strict=True)]
    texts = [tuple(compress(text, used)) for text in texts]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)][:-1]
    for number, text in enumerate(texts):
        cells = [cell.rjust(width) for cell, width in zip(text, widths, strict=False)]
        yield "  ".join([*cells, text[-1]])
        if number:
            yield from table.drawn(rows[number - 1])


class OfFunction(NamedTuple):
    """What the probes of a function, in the file ``binary``, have aggregated in a process."""

    function: Function
    binary: str
    pid: int
    rows: list[Aggregate]


def by_function(plan: Plan, aggregated: Sequence[Aggregate]) -> Iterator[OfFunction]:
    """Yield what was aggregated, by function and process."""
    found: dict[tuple[int, int], list[Aggregate]] = {}
    for row in aggregated:
        found.setdefault((plan.probes[row.probe].function, row.pid), []).append(row)
    for (number, pid), rows in found.items():
        if number >= 0:
            function = plan.functions[number]
            yield OfFunction(function, plan.path_of(function.binary), pid, rows)
