"""By which values rows are made: functions and processes, or what ``--by`` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar, overload

from msgspec import Struct

from lbtrace.model import Aggregate, Plan
from lbtrace.tables.key_values import columns_of
from lbtrace.tables.lazy import Lazy

_Row = TypeVar("_Row")


class OfKey(Struct, gc=False):
    """What was aggregated at a key: ``rows``, of ``count`` hits. The function, the file it is in
    and the process are empty where they are not of the key; ``values`` are those that are named, in
    their order."""

    plan: Plan
    function: int
    pid: int
    values: tuple[Any, ...]
    rows: Sequence[Aggregate]
    count: int

    @property
    def name(self) -> str:
        """The function."""
        return "" if self.function < 0 else self.plan.functions[self.function].name

    @property
    def binary(self) -> str:
        """The file that the function is in."""
        if self.function < 0:
            return ""
        return self.plan.path_of(self.plan.functions[self.function].binary)

    @property
    def by(self) -> dict[str, Any]:
        """The values of the key, by their names."""
        return dict(zip(self.plan.by, self.values, strict=False))


class Keys(Struct):
    """What was aggregated, by key, in columns: of keys by the thousand only those that are shown
    are made. ``columns`` has the values that are named, in their order, a list each."""

    plan: Plan
    functions: list[int]
    pids: list[int]
    columns: list[list[Any]]
    rows: Sequence[Sequence[Aggregate]]
    counts: list[int]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, at: int) -> OfKey:
        values = tuple([column[at] for column in self.columns])
        key = self.plan, self.functions[at], self.pids[at], values
        return OfKey(*key, self.rows[at], self.counts[at])

    def names(self) -> list[str]:
        """Return the functions."""
        known = {n: self.plan.functions[n].name if n >= 0 else "" for n in {*self.functions}}
        return [*map(known.__getitem__, self.functions)]


def by_key(plan: Plan, aggregated: Sequence[Aggregate]) -> Keys:
    """Return what was aggregated, by key."""
    of_function = not plan.by or "func" in plan.by
    of_process = not plan.by or "pid" in plan.by
    of_probe = attrgetter("probe")
    parts: dict[int, Sequence[Aggregate]] = {}
    if len(probes := {*map(of_probe, aggregated)}) == 1:  # tens of thousands at once
        parts = dict.fromkeys(probes, aggregated)
    else:
        for number, alike in groupby(sorted(aggregated, key=of_probe), of_probe):
            parts[number] = [*alike]
    rows, functions = list[Aggregate](), list[int]()
    values = [list[Any]() for name in plan.by if name not in _NAMED]
    for number, part in parts.items():
        probe = plan.probes[number]
        if probe.function < 0:
            continue
        rows += part
        functions += [probe.function if of_function else -1] * len(part)
        found = columns_of(probe, part)
        for at, column in enumerate(values):
            column.extend(found[at] if at < len(found) else [None] * len(part))
    pids = [row.pid for row in rows] if of_process else [0] * len(rows)
    made = Keys(plan, functions, pids, [], [*zip(rows)], [row.count for row in rows])
    rest = iter(values)
    for name in plan.by:
        named = pids if name == "pid" else made.names() if name == "func" else next(rest)
        made.columns.append(named)
    return _merged(made, [functions, pids, *values])


_NAMED = frozenset(("func", "pid"))
"""What of a key is not among the values of a probe's grouping."""


def _merged(keys: Keys, columns: Sequence[list[Any]]) -> Keys:
    """One key in place of those of several probes, buckets or processes that have the same values
    in ``columns``."""
    if not len(keys):
        return keys
    told = [told for column in columns for told in _told_apart(column)]
    apart: Sequence[Any] = told[0] if len(told) == 1 else [*zip(*told, strict=True)]
    apart = apart or [0] * len(keys)
    if len({*apart}) == len(keys):
        return keys
    found: dict[Any, list[int]] = {}
    for at, key in enumerate(apart):
        found.setdefault(key, []).append(at)
    firsts = [places[0] for places in found.values()]
    functions, pids, *named = (
        [column[at] for at in firsts] for column in (keys.functions, keys.pids, *keys.columns)
    )
    rows = [[keys.rows[at][0] for at in places] for places in found.values()]
    counts = [sum([keys.counts[at] for at in places]) for places in found.values()]
    return Keys(keys.plan, functions, pids, named, rows, counts)


def _told_apart(column: list[Any]) -> Iterator[list[Any]]:
    """By what values of a column are told apart, where they are not all the same."""
    kinds = {*map(type, column)}
    if not kinds <= _HASHED:  # records are dicts
        yield [*map(repr, column)]
        return
    if len(kinds) > 1:
        yield [*map(type, column)]  # as True is 1
    if column.count(column[0]) < len(column):
        yield column


_HASHED = frozenset((int, float, bool, str, type(None)))


class Ordered(Lazy[_Row]):
    """Rows of ``keys`` in their order, each made when it is looked at. Where they show nothing but
    their `ranks` and the key, they are ``ranked``, and need not be made to be written."""

    def __init__(
        self,
        keys: Keys,
        ranks: Sequence[int],
        row: Callable[[OfKey], _Row],
        order: Sequence[int],
        *,
        ranked: bool,
    ) -> None:
        super().__init__(len(order), (row(keys[at]) for at in order))
        self._of, self._order = (keys, ranks, row), order
        self.ranked = ranked

    @overload
    def __getitem__(self, at: int) -> _Row: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[_Row]: ...

    def __getitem__(self, at: int | slice) -> _Row | Sequence[_Row]:
        if isinstance(at, slice) and not at.start and at.step is None:
            return Ordered(*self._of, self._order[at], ranked=self.ranked)
        return super().__getitem__(at)

    @property
    def ranks(self) -> list[int]:
        """By what each is in order."""
        _, ranks, _ = self._of
        return [*map(ranks.__getitem__, self._order)]

    def key_columns(self) -> list[list[Any]]:
        """Return the values of the key: those that are named, else processes and functions."""
        keys, *_ = self._of
        columns: Sequence[Sequence[Any]] = keys.columns or (keys.pids, keys.names())
        return [[*map(column.__getitem__, self._order)] for column in columns]


def in_order(
    keys: Keys, ranks: Sequence[int], row: Callable[[OfKey], _Row], *, ranked: bool = False
) -> Ordered[_Row]:
    """Return a row for each of ``keys``, made when it is looked at: by ``ranks``, the largest
    first, then by name, process and values: numbers by size. Rows that are ``ranked`` show nothing
    but that and the key."""
    names = keys.names() if len({*keys.functions}) > 1 else []
    by_rank = sorted(range(len(keys)), key=ranks.__getitem__, reverse=True)

    def ordered() -> Iterator[int]:
        for _, ties in groupby(by_rank, ranks.__getitem__):
            alike = [*ties]
            yield from alike if len(alike) == 1 else _by_name(keys, names, alike)

    return Ordered(keys, ranks, row, Lazy(len(keys), ordered()), ranked=ranked)


def _by_name(keys: Keys, names: list[str], ties: list[int]) -> list[int]:
    """Those of ``keys``, by what tells them apart: the ``names`` of functions, if there are any."""
    columns: list[list[Any]] = [column for column in (names, keys.pids) if column]
    kinds = [{*map(type, map(column.__getitem__, ties))} for column in keys.columns]
    if all(kind <= _NUMBERS or kind == {str} for kind in kinds):
        columns += keys.columns
    else:  # of several types, or not read
        values = {at: repr(tuple([column[at] for column in keys.columns])) for at in ties}
        ties = sorted(ties, key=values.__getitem__)
    for column in reversed(columns):  # one after the other is faster than all at once
        ties.sort(key=column.__getitem__)
    return ties


_NUMBERS = frozenset((int, float, bool))
