"""From what the kernel has aggregated to rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lbtrace.errors import UsageError
from lbtrace.model import Aggregate, Aggregates, Binary, Function, Plan, Probe, Site
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.functions import split_named
from lbtrace.tables import Table, aggregated, table_of
from lbtrace.tables.count import Count
from lbtrace.tables.histogram import Histogram
from lbtrace.tables.keys import Keys, OfKey, in_order

SITE = Site(1, 1)


def plan(*actions: str) -> Plan:
    """Two functions, with probes of these actions, in turn."""
    functions = tuple(Function(name, 0, 0, 0) for name in ("f", "g"))
    probes = tuple(
        Probe(SITE, "closes", number % 2, action=action) for number, action in enumerate(actions)
    )
    return Plan((Binary("/bin/x"),), functions, probes)


def test_what_later_versions_aggregate_is_passed_over() -> None:
    later = Aggregates(1, (Aggregate(0, 7, 2, (1, 2), b"k"),))
    assert [*aggregated(plan("os", "table"), later)] == []
    assert table_of(plan("os"), later) == []
    ((name, table, rows),) = aggregated(plan("os", "count"), later)
    assert (name, [*rows]) == ("count", [])
    assert isinstance(table, Table)
    assert table_of(plan("count"), later, "sum") == []


def test_keys_as_text() -> None:
    by = {"n": 1, "path": "/x", "point": [1, 2], "unread": None}
    for row in (Count("", "", 0, 3, by), Histogram("", "", 0, 3, by=by)):
        assert row.key == "1, /x, [1, 2], ?"


def test_patterns_of_sources() -> None:
    """A name is not taken for a source that cannot be selected so."""
    names = ("uprobe:f", "std::sort", "a:b", "nothing:x", ":", "uprobe:")
    assert split_named(names) == {"func": [*names]}


def test_what_a_source_does_not_have_is_refused() -> None:
    from lbtrace.plan.value_selection import parse

    selection = Selection(("syscall:getppid",), request=parse((), "n > 3"))
    with pytest.raises(UsageError, match="n is not known"):
        make_plan([], selection)


def keys_of(counts: Sequence[int], values: Sequence[object]) -> Keys:
    """One key for each value, of the function f in process 7."""
    count = len(counts)
    rows = [[Aggregate(0, 7, number)] for number in counts]
    return Keys(plan("count"), [0] * count, [7] * count, [[*values]], rows, [*counts])


def test_only_the_rows_that_are_looked_at_are_made() -> None:
    """The first of them are the first of all: the largest, then by their values."""
    keys = keys_of((3, 9, 3, 1, 9, 3), (10, 9, 2, "x", 1, 1))
    made = list[OfKey]()

    def row(key: OfKey) -> tuple[int, object]:
        made.append(key)
        return key.count, *key.values

    rows = in_order(keys, keys.counts, row)
    assert (len(rows), len(rows[:3]), made) == (6, 3, [])
    assert ([*rows[:3]], len(made)) == ([(9, 1), (9, 9), (3, 1)], 3)
    assert (rows[0], rows[-1]) == ((9, 1), (1, "x"))
    assert [*rows] == [*rows[:]] == [(9, 1), (9, 9), (3, 1), (3, 2), (3, 10), (1, "x")]
    assert rows[::-1] == [*rows][::-1]
