"""A table of aggregated values, as a file of `lbtrace.tables` describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import compress
from operator import add
from typing import Any

import msgspec
from msgspec import Struct

from lbtrace.tables.keys import Ordered
from lbtrace.tables.narrow import narrowed
from lbtrace.tables.view import PLAIN, View, arrange, mark
from lbtrace.text import clean, is_clean, to_json

_NUMERIC = frozenset(["", "-", "?", *"0123456789"])

_PARTS = (bool, dict, list)

PICTURED = 5
"""Rows that a table has at most where pictures are drawn below each."""

WORD = (1 << 64) - 1
"""What is aggregated are numbers of 64 bits."""


def add_words(cpus: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the sums of what each CPU has aggregated, word by word."""
    return tuple(sum(words) & WORD for words in zip(*cpus, strict=True))


def subtract_words(later: Sequence[int], earlier: Sequence[int]) -> tuple[int, ...]:
    """Return what was added between two moments, word by word."""
    return tuple(new - old & WORD for new, old in zip(later, earlier, strict=True))


def to_signed(word: int) -> int:
    """Return a word as a number that may be negative."""
    return word - (1 << 64) if word >> 63 else word


def _heading(name: str) -> str:
    """That of a column ``sum(n)``."""
    how, _, rest = name.partition("(")
    return f"{how.upper()}({rest}"


def _values(row: Any) -> Sequence[str]:
    """The names of further columns."""
    return [*getattr(row, "values", ())]


class Table(Struct, frozen=True):
    """How what an action aggregates becomes rows, and how these are shown.

    ``rows`` makes the rows, msgspec structs of type ``row``, of all that the probes of the action
    have aggregated (`lbtrace.tables.keys.by_key`). Their fields are those of the JSON records,
    whose type is the action's name. As text each has ``cells``, under a ``heading``, then what is
    of its key, and lines below if they are ``drawn``, then, in a table of few rows, those of a
    ``picture``. Below the whole are ``notes`` on it. ``ranks`` are what they can be sorted by, one
    for each cell (the cells themselves where it is None), and ``order`` is the column by which they
    are. Those of ``spare`` headings give way first where a terminal is narrow. An action that
    ``takes_value`` gets it by ``arg``: an argument, ``retval`` or ``duration``; where that is None,
    it may do without. Where it ``takes_frames``, ``rows`` also gets the frames of
    `lbtrace.model.Aggregates`, which ``Aggregate.stack`` is about. What is of the key is left to
    the cells where it is not ``keyed``. ``merge`` makes one of the words that each CPU has
    aggregated, but for the first, the number of hits, and ``subtract`` those of one moment from
    those of a later one.
    """

    row: type[Struct]
    rows: Callable[..., Sequence[Any]]
    heading: tuple[str, ...]
    cells: Callable[[Any], tuple[str, ...]]
    ranks: Callable[[Any], tuple[Any, ...]] | None = None
    order: str = "COUNT"
    spare: tuple[str, ...] = ()
    drawn: Callable[[Any], Sequence[str]] = lambda _: ()
    picture: Callable[[Any], Sequence[str]] = lambda _: ()
    notes: Callable[[Sequence[Any]], Sequence[str]] = lambda _: ()
    takes_value: bool | None = False
    takes_frames: bool = False
    keyed: bool = True
    merge: Callable[[Sequence[Sequence[int]]], tuple[int, ...]] = add_words
    subtract: Callable[[Sequence[int], Sequence[int]], tuple[int, ...]] = subtract_words


def record(row: Any) -> dict[str, Any]:
    """Return the fields of a row: those that its key has, and no others that are empty."""
    made: dict[str, Any] = msgspec.to_builtins(row)
    for name in ("name", "binary", "pid") if made.get("by") else ("by",):
        made.pop(name, None)
    for name in ("values", "unread"):
        if not made.get(name):
            made.pop(name, None)
    return made


def flat(table: Table, rows: Sequence[Any]) -> tuple[list[str], list[list[Any]]]:
    """Return the names and the values of columns that are one number or text each."""
    if not rows:
        dropped = ("by", "values", "unread", "bars")
        return [name for name in table.row.__struct_fields__ if name not in dropped], []
    made = [record(row) for row in rows]
    names = {name: None for each in made for name in each if name not in ("by", "values", "bars")}
    keys, values = ([*made[0].get(part, ())] for part in ("by", "values"))
    columns = [
        *([each["by"][key] for each in made] for key in keys),
        *([*map(_cell, [each.get(name) for each in made])] for name in names),
        *([each["values"][value] for each in made] for value in values),
    ]
    return [*keys, *names, *values], [[*row] for row in zip(*columns, strict=True)]


def _cell(value: Any) -> Any:
    """A field; of the frames of a stack their functions, the innermost first."""
    if isinstance(value, list | tuple):
        return ";".join(each["name"] or f"{each['binary']}+{each['offset']:#x}" for each in value)
    return value


def written(value: Any) -> str:
    """Return a value of a key as text: truth values as languages write them, what has parts as
    JSON."""
    if value is None:
        return "?"
    return to_json(value) if isinstance(value, _PARTS) else str(value)


def key_text(by: Mapping[str, Any]) -> str:
    """Return the values of a key as one text."""
    return ", ".join(map(written, by.values()))


def _key_cells(row: Any) -> tuple[str, ...]:
    if row.by:
        return tuple(map(written, row.by.values()))
    return str(row.pid), row.name


def _padded(column: Sequence[str]) -> Sequence[str]:
    """The cells of a column, as wide as the widest, and what stands between it and the next one:
    numbers and times, which begin with a digit or a sign, are flush right."""
    different = {*column}
    width = max(map(len, different))
    right = _NUMERIC.issuperset([cell[:1] for cell in {*column[1:]}])
    pad = str.rjust if right else str.ljust
    if len(different) * 4 > len(column):
        return [pad(cell, width) + "  " for cell in column]
    made = {cell: pad(cell, width) + "  " for cell in different}
    return [*map(made.__getitem__, column)]


def _all_written(values: Sequence[Any]) -> Sequence[str]:
    """The values of a column of the key as text."""
    kinds = {*map(type, values)}
    if kinds == {str}:
        return values
    return [*map(str if kinds <= {int, str} else written, values)]


def _keys(table: Table, first: Any) -> tuple[str, ...]:
    return () if not table.keyed else (*(first.by if first and first.by else ("PID", "FUNCTION")),)


def headings(table: Table, rows: Sequence[Any]) -> list[str]:
    """Return the headings of all columns that rows have, also those that are empty."""
    first = rows[0] if rows else None
    return [*table.heading, *map(_heading, _values(first)), *_keys(table, first)]


def seen(table: Table, rows: Sequence[Any], view: View) -> Sequence[Any]:
    """Return the rows that a view shows, in its order."""
    named = headings(table, rows)
    number = named.index(view.column) if view.column in named else -1
    own = view.column == table.order

    def rank(row: Any) -> Any:
        ranks = (table.ranks or table.cells)(row)
        if number < len(ranks):
            return ranks[number]
        keys = (*row.by.values(),) if row.by else (row.pid, row.name)
        return keys[number - len(ranks)]

    def text(row: Any) -> str:
        shown = _key_cells(row) if table.keyed else (*table.cells(row), *table.drawn(row))
        return "\n".join(shown)

    return arrange(rows, view, None if own or number < 0 else rank, text)


def lines(
    table: Table, rows: Sequence[Any], view: View = PLAIN, *, drawn: bool = True
) -> Iterator[str]:
    """Yield a table as text, fit for a terminal: numbers are aligned to the right. Columns that
    have nothing in any row are left out, but for those of the key, and what is below rows unless
    it is to be ``drawn``. The column by which a view has sorted them is marked."""
    named = mark(headings(table, rows), view)
    columns: list[Sequence[str]] = [()] * len(named)
    used = [True] * len(named)
    ranked = isinstance(rows, Ordered) and rows.ranked
    if isinstance(rows, Ordered) and rows.ranked and rows:
        texts_of = {rank: str(rank) for rank in {*rows.ranks}}  # many are the same
        columns = [[*map(texts_of.__getitem__, rows.ranks)], *map(_all_written, rows.key_columns())]
    elif rows:
        columns = [*zip(*map(table.cells, rows), strict=True)]
        used = [*map(any, columns)] + used[len(columns) :]
        columns += zip(*map(_key_cells, rows), strict=True) if table.keyed else ()
    texts: list[Sequence[str]] = [
        [name, *(column if is_clean("".join(column)) else map(clean, column))]
        for name, column in zip(compress(named, used), compress(columns, used), strict=True)
    ]
    if view.width:
        first = rows[0] if rows else None
        spare = (*table.spare, *map(_heading, reversed(_values(first))))
        texts = narrowed(texts, len(_keys(table, first)), spare, view.width)
    padded = [*map(_padded, texts[:-1]), texts[-1]]
    joined = reduce(partial(map, add), map(iter, padded))
    yield next(joined)
    for row, line in zip(rows, joined, strict=True) if drawn and not ranked else ():
        yield line
        yield from table.drawn(row)
        if len(rows) <= PICTURED:
            yield from table.picture(row)
    yield from joined
    if drawn:
        yield from table.notes(rows)
