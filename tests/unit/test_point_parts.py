"""Points whose values several probes read: their events in any order, and some of them lost."""

from __future__ import annotations

from itertools import permutations

import pytest

from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.visitor import Visitor
from lbtrace.capture.check import find_faults
from lbtrace.model import (
    CLOSE,
    LOSS,
    OPEN,
    POINT,
    Batch,
    Binary,
    Call,
    Fetch,
    Function,
    Loss,
    Plan,
    Probe,
    Site,
    Unreadable,
    Value,
)
from lbtrace.model.wire import EVENT
from lbtrace.values.integer import Integer

LONG = Integer("long", 8, True)
FETCHES = (Fetch(register="di"),)
ENTRY, RETURN, FIRST, SECOND, THIRD, OTHER = range(6)


def values(name: str) -> tuple[Value, ...]:
    return (Value(name, LONG, 0),)


def make_plan() -> Plan:
    """A function, a line whose values three probes read, and one that needs a single probe."""
    functions = (
        Function("f", 8, 0, 8),
        Function("a.c:1", 9, 0, 9, parameters=values("a"), typed=True),
        Function("a.c:2", 10, 0, 10, parameters=values("d"), typed=True),
    )
    probes = (
        Probe(Site(8, 8), "opens", 0),
        Probe(Site(8, 8), "closes", 0),
        Probe(Site(9, 9), "point", 1, fetches=FETCHES),
        Probe(Site(9, 9), "more values", 1, fetches=FETCHES, values=values("b")),
        Probe(Site(9, 9), "more values", 1, fetches=FETCHES, values=values("c")),
        Probe(Site(10, 10), "point", 2, fetches=FETCHES),
    )
    return Plan((Binary("./one"),), functions, probes)


class Seen(Visitor):
    """A visitor that notes the names and values of what ends."""

    def __init__(self) -> None:
        self.ended: list[tuple[object, ...]] = []

    def loss(self, loss: Loss) -> None:
        self.ended.append(("loss",))

    def exit(self, call: Call) -> None:
        shown = ["?" if isinstance(v.value, Unreadable) else v.value for v in call.args]
        self.ended.append((call.name, call.depth, *shown))

    def point(self, point: Call) -> None:
        self.exit(point)


KINDS = {ENTRY: OPEN, RETURN: CLOSE}


def match(*events: tuple[int, int, int]) -> list[tuple[object, ...]]:
    """What is seen of events, each a probe (-1: a loss), a stack pointer and a value."""
    records = [
        EVENT.pack(
            *(10 * (n + 1), pointer, 0, max(probe, 0), 7, 7),
            LOSS if probe < 0 else KINDS.get(probe, POINT),
            *(0, 0, 0, *((0, 1 << 32) if probe < 0 else (value, 0)), 0, 0, 0, 0),
        )
        for n, (probe, pointer, value) in enumerate(events)
    ]
    seen = Seen()
    matcher = CallMatcher(make_plan(), seen)
    for record in records:  # in batches of their own
        matcher.feed(Batch(record))
    matcher.finish()
    points = [each for each in seen.ended if str(each[0]).startswith("a.c")]
    assert matcher.points == len(points)
    return seen.ended


@pytest.mark.parametrize("order", [*permutations((FIRST, SECOND, THIRD))])
def test_any_order(order: tuple[int, ...]) -> None:
    """The kernel runs the probes of an instruction in an order of its own."""
    parts = [(probe, 80, probe) for probe in order]
    assert match((ENTRY, 90, 0), *parts, *parts, (OTHER, 80, 9), (RETURN, 90, 0)) == [
        ("a.c:1", 1, FIRST, SECOND, THIRD),
        ("a.c:1", 1, FIRST, SECOND, THIRD),
        ("a.c:2", 1, 9),
        ("f", 0),
    ]


def test_lost_parts() -> None:
    """A point is shown where it was, without what did not come of it."""
    assert match((FIRST, 80, 1), (THIRD, 80, 3), (OTHER, 80, 9)) == [
        ("a.c:1", 0, 1, "?", 3),
        ("a.c:2", 0, 9),
    ]
    assert match((ENTRY, 90, 0), (SECOND, 80, 2), (RETURN, 90, 0)) == [
        ("a.c:1", 1, "?", 2, "?"),
        ("f", 0),
    ]
    assert match((FIRST, 80, 1), (-1, 80, 0), (SECOND, 80, 2), (THIRD, 80, 3)) == [
        ("a.c:1", 0, 1, "?", "?"),
        ("loss",),
        ("a.c:1", 0, "?", 2, 3),
    ]
    assert match((FIRST, 80, 1), (FIRST, 80, 4), (SECOND, 80, 5), (THIRD, 80, 6)) == [
        ("a.c:1", 0, 1, "?", "?"),
        ("a.c:1", 0, 4, 5, 6),
    ]
    assert match((FIRST, 80, 1)) == [("a.c:1", 0, 1, "?", "?")]


def test_a_damaged_plan_is_refused() -> None:
    """One whose further values are of no point, or in slots that there are not."""
    plan = make_plan()
    assert not [*find_faults(plan)]
    first, *others = plan.probes[3:]
    alone = Plan(plan.binaries, plan.functions, (first, *others))
    assert [*find_faults(alone)] == ["probe 0 adds values to no point"]
    wild = Probe(Site(9, 9), "more values", 1, fetches=FETCHES, values=(Value("b", LONG, 99),))
    faulty = Plan(plan.binaries, plan.functions, (*plan.probes[:3], wild))
    assert [fault[:8] for fault in find_faults(faulty)] == ["function"]
