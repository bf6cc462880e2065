"""From what the kernel has aggregated to the rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from lbtrace.errors import UsageError
from lbtrace.model import SENDING, Aggregate, Aggregates, Plan
from lbtrace.model.wire_limits import ACTIONS
from lbtrace.tables.key_values import Tallied
from lbtrace.tables.lazy import Lazy
from lbtrace.tables.table import Table

AGGREGATING = tuple(name for name in ACTIONS if name not in SENDING)
"""The actions that aggregate: the files of ``bpf_src/actions``."""

Merge: TypeAlias = Callable[[Sequence[Sequence[int]]], tuple[int, ...]]
"""See `Table.merge`."""


def find_table(action: str) -> Table:
    """Return the table of an action that aggregates, imported when it is needed."""
    return cast("Table", import_module(f"lbtrace.tables.{action}").TABLE)


def merge_aggregated(
    plan: Plan,
    now: int,
    aggregated: Callable[[str, Merge], Iterable[Aggregate]],
    unsure: Callable[[], dict[int, int]],
) -> Aggregates:
    """Return what the actions of a plan have ``aggregated`` until ``now``, of all CPUs together,
    and how many of these calls are ``unsure``."""
    found = (aggregated(action, find_table(action).merge) for action in _actions(plan))
    return Aggregates(now, (*chain.from_iterable(found),), unsure())


def added_since(plan: Plan, later: Aggregates, earlier: Aggregates) -> Aggregates:
    """Return what was aggregated between two moments. The least and the most of values are those of
    all the time."""

    known = {_key_of(row): row for row in earlier.rows}

    def added() -> Iterator[Aggregate]:
        for row in later.rows:
            old = known.get(_key_of(row))
            if old is None:
                yield row
            elif row.count != old.count:
                subtract = find_table(plan.probes[row.probe].action).subtract
                words = subtract(row.words, old.words)
                yield replace(row, count=row.count - old.count, words=words)

    before = earlier.unsure.get
    unsure = {pid: n - before(pid, 0) for pid, n in later.unsure.items() if n != before(pid, 0)}
    return Aggregates(later.time, tuple(added()), unsure, later.frames)


def _key_of(row: Aggregate) -> tuple[object, ...]:
    """By what a row is the same at another moment."""
    values = repr(row.values) if isinstance(row, Tallied) else ""
    return row.probe, row.pid, row.key, values


def aggregated(plan: Plan, aggregates: Aggregates) -> Iterator[tuple[str, Table, Sequence[Any]]]:
    """Yield the name of each action of a plan that aggregates, with its table and its rows. Actions
    that are not known here have none, nor have probes that ``plan`` does not have, as in a damaged
    capture."""
    for action in _actions(plan):
        table = find_table(action)
        probes = {n for n, probe in enumerate(plan.probes) if probe.action == action}
        own = [row for row in aggregates.rows if row.probe in probes]
        frames = [aggregates.frames] if table.takes_frames else []
        rows = table.rows(plan, own, *frames)
        if aggregates.unsure and "self_time" in table.row.__struct_fields__:
            rows = Lazy(len(rows), map(partial(_if_sure, aggregates.unsure), rows))
        yield action, table, rows


def _if_sure(unsure: Container[int], row: Any) -> Any:
    """Return a row without what its calls took themselves where that is not known for sure: of all
    calls of a process what they are inside of."""
    return replace(row, self_time=None) if row.pid in unsure else row


def check_aggregates(plan: Plan, action: str = "") -> None:
    """Raise `UsageError` where no probe of a plan does an action that aggregates, or that one."""
    found = _actions(plan)
    if not (action in found if action else found):
        does = f"its action is {' and '.join(found)}" if found else "it shows calls"
        raise UsageError(
            f"this trace does not {action or 'aggregate'}: {does}",
            f'trace with action="{action or "count"}", or iterate calls()',
        )


def table_of(plan: Plan, aggregates: Aggregates, action: str = "") -> list[Any]:
    """Return the rows of an action, or of the one that the plan has; none, if it does not
    aggregate."""
    for name, _, rows in aggregated(plan, aggregates):
        if not action or name == action:
            return [*rows]
    return []


def _actions(plan: Plan) -> list[str]:
    return [action for action in AGGREGATING if action in plan.actions]
