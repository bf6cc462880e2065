"""Processes that are forked inside of calls, and continue these."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lbtrace.model import (
    Integer,
    Plan,
    Probe,
    Site,
    Thread,
)

INT = Integer("int", 4, True)
A, B, C = 0, 1, 2  # functions a, b, c
HIGH, MIDDLE, LOW = 0x3000, 0x2000, 0x1000  # frames: outer to inner


@pytest.fixture
def plan(make_plan: Any) -> Plan:
    made: Plan = make_plan(("a", (), INT), ("b", (), INT), ("c", (), INT))
    return made


def test_a_landing_may_be_the_first_that_a_child_does(script: Any, plan: Plan, watch: Any) -> None:
    """It says that calls were left, unless the program is another one by now."""
    plan = replace(plan, probes=(*plan.probes, Probe(Site(8, 8), "landing")))
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8, programs=3)
    script.fork(9, programs=3)
    script.hit(6, MIDDLE, tid=8)
    script.hit(6, HIGH, tid=9)
    script.enter(C, LOW, tid=8)
    script.enter(C, LOW, tid=9)
    threads = (
        Thread(5, 7, "t", 1100, 1, 0, 3),
        Thread(8, 8, "t", 1700, 0, 0, 3),
        Thread(9, 9, "t", 1800, 0, 0, 4),
    )
    steps = watch(plan, script.batch(threads))[0]
    assert steps[3:9] == [
        *("thread 8 t", "2 8 forked by 7", "1 <7 b unwound", "1 > c", "thread 9 t", "0 > c")
    ]


def test_a_child_that_executes_a_program_inherits_nothing(
    script: Any, plan: Plan, watch: Any
) -> None:
    """Before it has done anything, or after: its calls end open then."""
    script.enter(A, HIGH)
    script.fork(8, life=5, programs=3)
    script.fork(9, life=6, programs=3)
    script.enter(B, LOW, tid=8)
    script.enter(B, LOW, tid=9)
    script.enter(C, LOW, tid=9)
    threads = (
        Thread(5, 7, "t", 1100, 1, 0, 3),
        Thread(8, 8, "t", 1400, 5, 0, 4),
        Thread(9, 9, "t", 1500, 6, 0, 3),
        Thread(9, 9, "t", 1600, 6, 0, 4),
    )
    assert watch(plan, script.batch(threads))[0][2:] == [
        *("thread 8 t", "0 > b", "thread 9 t", "1 9 forked by 7", "1 > b"),
        *("1 < b open", "0 <7 a open", "thread 9 t", "0 > c"),
        *("0 < a open", "0 < b open", "0 < c open"),
    ]


def test_a_fork_shows_that_the_parent_has_executed_a_program(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH)
    script.fork(8, programs=4)
    script.enter(B, LOW, tid=8)
    threads = (Thread(5, 7, "t", 1100, 1, 0, 3), Thread(8, 8, "t", 1300, 0, 0, 4))
    assert watch(plan, script.batch(threads))[0][1:] == [
        *("0 > a", "0 < a open", "thread 8 t", "0 > b", "0 < b open")
    ]


def test_max_depth_hides_inherited_calls(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8)
    script.enter(C, LOW, tid=8)
    script.leave(C, LOW, 1, tid=8)
    script.leave(B, MIDDLE, 1, tid=8)
    script.leave(A, HIGH, 1, tid=8)
    batch = script.batch()
    assert watch(plan, batch, max_depth=1)[0] == [
        *("0 > a", "1 8 forked by 7", "0 <7 a = 1", "0 < a open")
    ]
    assert watch(plan, batch, max_depth=0)[0] == []


def test_a_program_that_is_executed_ends_what_is_open(script: Any, plan: Plan, watch: Any) -> None:
    """Whatever comes first in the new one, and wherever its stack is."""
    plan = replace(plan, probes=(*plan.probes, Probe(Site(1, 1), "landing", -1)))
    landing = len(plan.probes) - 1
    script.enter(A, MIDDLE)
    script.fork(8)
    script.enter(B, LOW, tid=8)
    script.executes(2, tid=8)
    script.hit(landing, HIGH, tid=8)
    script.enter(C, HIGH, tid=8)
    script.leave(C, HIGH, 1, tid=8)
    script.executes(2)
    script.hit(landing, HIGH)
    script.enter(C, HIGH)
    script.executes(3)
    steps, matcher = watch(plan, script.batch())
    assert steps == [
        *("0 > a", "1 8 forked by 7", "1 > b", "1 < b open", "0 <7 a open", "0 > c", "0 < c = 1"),
        *("0 < a open", "0 > c", "0 < c open"),
    ]
    assert (matcher.calls, matcher.processes) == (4, 2)
