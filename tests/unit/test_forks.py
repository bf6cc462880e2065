"""Processes that are forked inside of calls, and continue these."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.model import (
    Batch,
    Integer,
    Losses,
    Plan,
    Probe,
    Site,
    Thread,
)
from lbtrace.sinks import FORMATS

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


def test_what_the_parent_lost_concerns_the_child(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8, lost=3)
    script.leave(A, HIGH, 1, tid=8)
    assert watch(plan, script.batch())[0][2:] == [
        *("2 lost 3", "2 8 forked by 7", "1 <7 b open", "0 <7 a = 1", "1 < b open", "0 < a open")
    ]


def test_what_the_child_loses_concerns_inherited_calls(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8)
    script.enter(C, LOW, tid=8, lost=2)
    script.leave(C, LOW, 1, tid=8)
    script.leave(A, HIGH, 1, tid=8)
    assert watch(plan, script.batch())[0][2:8] == [
        *("2 8 forked by 7", "2 lost 2", "2 > c", "2 < c = 1", "1 <7 b open", "0 <7 a = 1")
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


@pytest.fixture
def forking(script: Any) -> Batch:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8, life=1)
    script.enter(C, LOW, tid=8)
    script.leave(C, LOW, 1, tid=8)
    script.leave(B, MIDDLE, 2, tid=8)
    script.leave(B, MIDDLE, 4)
    script.leave(A, HIGH, 5)
    threads = (Thread(5, 7, "t", 1100), Thread(8, 8, "t", 1400, 1))
    batch: Batch = script.batch(threads)
    return batch


def test_captures_hold_forks(forking: Batch, plan: Plan, tmp_path: Any, render: Any) -> None:
    """Python's calls do not have inherited ones, but what is inside of them is as deep."""
    path = tmp_path / "forks.lbt"
    with path.open("wb", buffering=0) as file:
        writer = CaptureWriter(file, plan)
        writer.write(forking)
        writer.finish(Losses())
    with read_capture(str(path)) as capture:
        batches = [*capture.batches()]
        for name in FORMATS:
            if not FORMATS[name].is_capture:
                assert render(name, capture.plan, *batches) == render(name, plan, forking)
        calls = [(c.name, c.tid, c.depth, c.end) for c in capture.calls()]
    assert calls == [("c", 8, 2, "returned"), ("b", 7, 1, "returned"), ("a", 7, 0, "returned")]


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
