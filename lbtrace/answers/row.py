"""A row of a report, and the order of rows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

SORTS = {
    "total": "total",
    "self": "self_time",
    "avg": "mean",
    "p99": "p99",
    "max": "max",
    "calls": "calls",
    "function": "name",
}
"""The fields of `Row` by the names of their columns."""


class Row(Struct, frozen=True):
    """What the calls of a function took, all or those of a ``key``: all times are in ns.

    * ``name``, ``binary``: the function and its file.
    * ``key``: the thread, the caller or the value of an argument that the row is about. Empty where
      there is none. ``path``: the function and all around it, outermost first, if asked for.
    * ``calls``: how many began, and how often a point was passed. ``timed``: how many of them have
      a duration. ``unended``: calls that have none, because their end was not seen; ``jumped`` of
      them to a function that returns in their place, unseen.
    * ``total``: how long the function was running: calls within another one of the row are not
      counted again. ``self_time``: the durations less those of traced callees.
    * ``mean``, ``deviation`` (standard, of the durations), ``median``, ``p99``, ``min``, ``max``:
      of the durations of all calls, None where there are not enough. ``median`` and ``p99`` are
      within 1.6 %.
    """

    name: str
    binary: str
    key: str = ""
    path: tuple[str, ...] = ()
    calls: int = 0
    timed: int = 0
    unended: int = 0
    total: int = 0
    self_time: int = 0
    mean: float | None = None
    deviation: float | None = None
    median: int | None = None
    p99: int | None = None
    min: int | None = None
    max: int | None = None
    jumped: int = 0


def in_order(rows: Sequence[Row], sort: str) -> list[Row]:
    """Return rows by a column of `SORTS`, the largest first, functions by name."""
    if sort == "function":
        return sorted(rows, key=lambda row: (row.name, row.key, row.path))
    field = SORTS[sort]

    def rank(row: Row) -> tuple[float, int, int, str, str]:
        return (-(getattr(row, field) or 0), -row.self_time, -row.calls, row.name, row.key)

    return sorted(rows, key=rank)


def as_tree(rows: Sequence[Row], chosen: Sequence[Row]) -> list[Row]:
    """Return ordered rows with paths as a tree, each before those below it: those that are
    ``chosen`` and all that are around them."""
    wanted = {row.path[:depth] for row in chosen for depth in range(1, len(row.path) + 1)}
    below: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.path in wanted:
            below.setdefault(row.path[:-1], []).append(row)
    found: list[Row] = []
    waiting = below.get((), [])[::-1]
    while waiting:
        found.append(row := waiting.pop())
        waiting += below.pop(row.path, [])[::-1]
    return found
