"""From what the kernel has aggregated to the rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from lbtrace.errors import UsageError
from lbtrace.model import SENDING, Aggregate, Aggregates, Plan
from lbtrace.model.wire_limits import ACTIONS
from lbtrace.tables.keys import by_key
from lbtrace.tables.lazy import Lazy
from lbtrace.tables.table import Table, subtract_words

AGGREGATING = tuple(name for name in ACTIONS if name not in SENDING)
"""The actions that aggregate: the files of ``bpf_src/actions``."""


Aggregated: TypeAlias = tuple[int, int, bytes, Sequence[Sequence[int]]]
"""What the kernel has aggregated: of a probe, in a process, by what else the key holds; the words
of each CPU."""


def find_table(action: str) -> Table:
    """Return the table of an action that aggregates, imported when it is needed."""
    return cast("Table", import_module(f"lbtrace.tables.{action}").TABLE)


def merge_aggregated(
    plan: Plan,
    now: int,
    aggregated: Callable[[str], Iterable[Aggregated]],
    self_times: Callable[[], Iterable[tuple[int, int, tuple[int, ...]]]],
) -> Aggregates:
    """Return what the actions of a plan have ``aggregated`` until ``now``, of all CPUs together,
    and how long calls took themselves."""
    rows = []
    for action in _actions(plan):
        merge = find_table(action).merge
        for probe, pid, key, cpus in aggregated(action):
            if len(cpus) == 1:  # shared
                count, *words = cpus[0]
                rows.append(Aggregate(probe, pid, count, (*words,), key))
                continue
            count = sum([words[0] for words in cpus])
            rest = merge([words[1:] for words in cpus]) if len(cpus[0]) > 1 else ()
            rows.append(Aggregate(probe, pid, count, rest, key))
    selves = (Aggregate(probe, pid, calls, (*rest,)) for probe, pid, (calls, *rest) in self_times())
    return Aggregates(now, (*rows,), (*selves,))


def added_since(plan: Plan, later: Aggregates, earlier: Aggregates) -> Aggregates:
    """Return what was aggregated between two moments. The least and the most of values are those of
    all the time."""

    def added(
        rows: Sequence[Aggregate], before: Sequence[Aggregate], *, selves: bool
    ) -> Iterator[Aggregate]:
        known = {(row.probe, row.pid, row.key): row for row in before}
        for row in rows:
            old = known.get((row.probe, row.pid, row.key))
            if old is None:
                yield row
            elif row.count != old.count:
                action = plan.probes[row.probe].action
                subtract = subtract_words if selves else find_table(action).subtract
                words = subtract(row.words, old.words)
                yield replace(row, count=row.count - old.count, words=words)

    return Aggregates(
        later.time,
        tuple(added(later.rows, earlier.rows, selves=False)),
        tuple(added(later.selves, earlier.selves, selves=True)),
        later.frames,
    )


def aggregated(plan: Plan, aggregates: Aggregates) -> Iterator[tuple[str, Table, Sequence[Any]]]:
    """Yield the name of each action of a plan that aggregates, with its table and its rows. Actions
    that are not known here have none, nor have probes that ``plan`` does not have, as in a damaged
    capture."""
    for action in _actions(plan):
        table = find_table(action)
        own = [
            row
            for row in aggregates.rows
            if row.probe < len(plan.probes) and plan.probes[row.probe].action == action
        ]
        frames = [aggregates.frames] if table.takes_frames else []
        rows = table.rows(plan, own, *frames)
        if "self_time" in table.row.__struct_fields__:
            rows = _with_self_times(plan, rows, aggregates)
        yield action, table, rows


def _with_self_times(plan: Plan, rows: Sequence[Any], aggregates: Aggregates) -> Sequence[Any]:
    """Return rows of durations with what the calls took themselves, where that is known for sure:
    of all calls of a process what they are inside of."""
    unsure = {each.pid for each in aggregates.selves if each.words[1]}
    found: dict[tuple[str, str, int], list[int]] = {}
    for each in by_key(plan, aggregates.selves):
        calls = sum(row.count for row in each.rows)
        known = sum(row.words[0] for row in each.rows)
        found[each.name, each.binary, each.pid] = [calls, known]

    def complete(row: Any) -> Any:
        calls, known = found.get((row.name, row.binary, row.pid), (0, 0))
        is_known = row.unit and calls == row.count and row.pid not in unsure
        return replace(row, self_time=known) if is_known else row

    return Lazy(len(rows), map(complete, rows))


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
