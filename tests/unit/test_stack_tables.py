"""Rows of stacks, folded: without a kernel."""

from __future__ import annotations

from lbtrace.model import Aggregate, Binary, Frame, Function, Plan, Probe, Site
from lbtrace.model.wire_limits import END_NO_TABLE, END_OUTERMOST
from lbtrace.tables.stacks import count_stacks, described, fold

LEAF = Probe(Site(0, 0), "opens", function=0, action="stacks")
FRAMES = (
    Frame("leaf", 10, "/bin/prog"),
    Frame("a;b", 5, "/bin/prog"),
    Frame("a;b", 9, "/bin/prog"),
    Frame("", 0x1234, "/lib/stripped.so"),
)


def test_rows_of_processes_are_one_and_folded_ones_of_names() -> None:
    """Where in the function the probe is makes no difference."""
    plan = Plan((Binary("/bin/prog"),), functions=(Function("leaf", 0, 0, 0),), probes=(LEAF,))
    stacks = [((0, 1), END_OUTERMOST), ((0, 2), END_OUTERMOST), ((0, 3), END_NO_TABLE)]
    met = [
        Aggregate(0, pid, count, (0, 0), b"", *stack)
        for stack, counts in zip(stacks, ((1, 2), (4,), (9,)), strict=True)
        for pid, count in enumerate(counts)
    ]
    rows = count_stacks(plan, met, FRAMES)
    assert [(row.count, row.total) for row in rows] == [(9, None), (4, None), (3, None)]
    why = "cut: no table"
    assert [*described(rows[0])] == ["leaf", "[unknown] stripped.so+0x1234", f"[{why}]"]
    assert [*described(rows[1])] == ["leaf", "a;b+0x9"]
    assert fold(rows) == [
        ((f"[{why}]", "[unknown] stripped.so+0x1234", "leaf"), 9),
        (("a;b", "leaf"), 7),
    ]


def test_the_largest_total_comes_first() -> None:
    plan = Plan(
        (Binary("/bin/prog"),),
        functions=(Function("leaf", 0, 0, 0),),
        probes=(Probe(Site(0, 0), "opens", function=0, action="stacks", aggregates=0),),
    )
    met = [
        Aggregate(0, 1, 8, ((1 << 64) - 5, 0), b"", (0, 1), 1),
        Aggregate(0, 1, 2, (7, 1), b"", (0, 2), 1),
    ]
    rows = count_stacks(plan, met, FRAMES)
    assert [(row.total, row.unread) for row in rows] == [(7, 1), (-5, 0)]
