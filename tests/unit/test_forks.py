"""Processes that are forked inside of calls, and continue these."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from lbtrace.calls import CallMatcher, forks
from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.model import (
    FORK,
    LOSS,
    ON_ALTSTACK,
    OPEN,
    Batch,
    Integer,
    Losses,
    Plan,
    Probe,
    Site,
    Thread,
    wire,
)
from lbtrace.model.wire import EVENT
from lbtrace.sinks import FORMATS

INT = Integer("int", 4, True)
A, B, C = 0, 1, 2  # functions a, b, c
HIGH, MIDDLE, LOW = 0x3000, 0x2000, 0x1000  # frames: outer to inner


@pytest.fixture
def plan(make_plan: Any) -> Plan:
    made: Plan = make_plan(("a", (), INT), ("b", (), INT), ("c", (), INT))
    return made


def test_a_child_calls_inside_of_its_parents_calls_and_returns_from_them(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8)
    script.enter(C, LOW, tid=8)
    script.leave(C, LOW, 1, tid=8)
    script.leave(B, MIDDLE, 2, tid=8)
    script.leave(A, HIGH, 3, tid=8)
    script.enter(C, HIGH, tid=8)
    script.leave(B, MIDDLE, 4)
    script.leave(A, HIGH, 5)
    steps, matcher = watch(plan, script.batch())
    assert steps == [
        *("0 > a", "1 > b", "2 8 forked by 7", "2 > c", "2 < c = 1", "1 <7 b = 2", "0 <7 a = 3"),
        *("0 > c", "1 < b = 4", "0 < a = 5", "0 < c open"),
    ]
    assert (matcher.calls, matcher.threads, matcher.processes) == (4, 2, 2)
    assert matcher.returns_without_entry == 0


def test_a_child_that_does_nothing_is_not_shown(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == ["0 > a", "0 < a = 1"]


def test_a_child_that_only_returns_is_named(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.fork(8, life=5, programs=2, inside=3)
    script.leave(A, HIGH, 1, tid=8)
    threads = (Thread(5, 7, "name", 1100, 9, 0, 2),)
    steps, matcher = watch(plan, script.batch(threads))
    assert steps == [
        *("thread 7 name", "0 > a", "thread 8 name", "1 8 forked by 7", "0 <7 a = 1", "0 < a open")
    ]
    assert (matcher.threads, matcher.processes) == (2, 2)


def test_what_the_parent_did_later_is_not_inherited(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    script.enter(B, MIDDLE)
    script.leave(B, MIDDLE, 2)
    script.leave(A, HIGH, 5)
    script.enter(C, MIDDLE, tid=8)
    script.leave(A, HIGH, 3, tid=8)
    assert watch(plan, script.batch())[0][4:] == [
        *("1 8 forked by 7", "1 > c", "1 < c unwound", "0 <7 a = 3")
    ]


def test_a_thread_and_what_has_another_stack_inherit_nothing(
    script: Any, plan: Plan, watch: Any
) -> None:
    """Threads are of the same process, and are not reported of as forks."""
    script.enter(A, HIGH)
    script.fork(8, continues=False)
    script.enter(B, LOW, tid=8)
    script.enter(C, LOW, tid=9)
    assert watch(plan, script.batch())[0][:3] == ["0 > a", "0 > b", "0 > c"]


def test_a_thread_of_the_child_inherits_nothing(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    script.pids[9] = 8
    script.enter(B, LOW, tid=9)
    script.enter(C, LOW, tid=8)
    assert watch(plan, script.batch())[0][:4] == ["0 > a", "0 > b", "1 8 forked by 7", "1 > c"]


def test_the_first_thread_continues_what_any_thread_did(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH, tid=6)
    script.enter(B, HIGH, tid=7)
    script.fork(8, tid=6)
    script.enter(C, LOW, tid=8)
    assert watch(plan, script.batch())[0][2:5] == ["1 8 forked by 6", "1 > c", "1 < c open"][:2] + [
        "0 < a open"
    ]


def test_a_grandchild_continues_what_its_parent_has_not_yet(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    script.fork(9, tid=8)
    script.enter(B, MIDDLE, tid=9)
    script.fork(10, tid=9)
    script.leave(B, MIDDLE, 1, tid=10)
    script.leave(A, HIGH, 2, tid=10)
    script.leave(A, HIGH, 3, tid=8)
    steps = watch(plan, script.batch())[0]
    assert steps == [
        *("0 > a", "1 9 forked by 8", "1 > b", "2 10 forked by 9", "1 <9 b = 1", "0 <7 a = 2"),
        *("1 8 forked by 7", "0 <7 a = 3", "0 < a open", "1 < b open", "0 <7 a open"),
    ]


def test_an_exception_leaves_inherited_calls(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8)
    script.leave(A, HIGH, 1, tid=8)
    assert watch(plan, script.batch())[0][2:5] == [
        *("2 8 forked by 7", "1 <7 b unwound", "0 <7 a = 1")
    ]


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


def test_numbers_are_used_again(script: Any, plan: Plan, watch: Any) -> None:
    """The child of the same number inherits what the later parent has; the former one ends."""
    script.pids[6] = 6
    script.enter(A, HIGH)
    script.fork(8, life=1)
    script.enter(B, MIDDLE, tid=8)
    script.enter(C, HIGH, tid=6)
    script.fork(8, tid=6, life=2)
    script.enter(B, MIDDLE, tid=8)
    threads = (Thread(8, 8, "t", 1300, 1), Thread(8, 8, "t", 1600, 2))
    steps, matcher = watch(plan, script.batch(threads))
    assert steps[1:9] == [
        *("thread 8 t", "1 8 forked by 7", "1 > b", "0 > c", "1 < b open", "0 <7 a open"),
        *("thread 8 t", "1 8 forked by 6"),
    ]
    assert (matcher.threads, matcher.processes) == (4, 4)


def test_a_fork_that_was_lost_is_not_taken_for_a_former_one(
    script: Any, plan: Plan, watch: Any
) -> None:
    """What the kernel loses of no kind it is that it counts are forks: struct lbt_loss."""
    script.enter(A, HIGH)
    script.fork(8)
    head = (script.time + 50, LOW, 0, 2, 8, 8, LOSS, 0, 0, 0)
    script.records.append(EVENT.pack(*head, 1, 0, *[0] * 4))
    script.enter(B, LOW, tid=8)
    assert watch(plan, script.batch())[0][1:3] == ["0 lost 1", "0 > b"]


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


def test_calls_that_were_left_before_the_fork_are_not_inherited(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.fork(8, MIDDLE)
    script.enter(C, LOW - 0x100, tid=8)
    assert watch(plan, script.batch())[0][2:4] == ["1 8 forked by 7", "1 > c"]


def test_vfork_has_left_its_own_frame(script: Any, plan: Plan, watch: Any) -> None:
    """It takes its return address from the stack before it makes the system call."""
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.fork(8, MIDDLE + 8)
    script.leave(B, MIDDLE, 0, tid=8)
    script.leave(B, MIDDLE, 8)
    assert watch(plan, script.batch())[0][2:5] == [*("2 8 forked by 7", "1 <7 b = 0", "1 < b = 8")]


def test_a_fork_on_an_alternate_signal_stack(script: Any, plan: Plan, watch: Any) -> None:
    """It is below all calls of the thread's own stack, wherever it lies."""
    script.enter(A, LOW)
    script.enter(B, HIGH, bits=ON_ALTSTACK)
    script.fork(8, HIGH - 8, bits=ON_ALTSTACK)
    script.leave(B, HIGH, 1, tid=8, bits=ON_ALTSTACK)
    script.leave(A, LOW, 2, tid=8)
    assert watch(plan, script.batch())[0][2:5] == [*("2 8 forked by 7", "1 <7 b = 1", "0 <7 a = 2")]


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


def test_only_so_many_processes_may_have_done_nothing_yet(
    script: Any, plan: Plan, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "MOST", 2)
    script.enter(A, HIGH)
    for child in (8, 9, 10):
        script.fork(child)
    for child in (8, 9, 10):
        script.enter(B, LOW, tid=child)
    assert watch(plan, script.batch())[0][1:6] == [
        *("0 > b", "1 9 forked by 7", "1 > b", "1 10 forked by 7", "1 > b")
    ]


def test_a_gap_in_a_capture_ends_inheritances(script: Any, plan: Plan, watch: Any) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    seen: list[str] = []

    class Steps:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: seen.append(name)

    matcher = CallMatcher(plan, Steps())  # type: ignore[arg-type]
    matcher.feed(script.batch())
    matcher.finish()
    script.enter(B, LOW, tid=8)
    matcher.feed(script.batch())
    assert seen == ["entry", "exit", "entry"]


def test_markers(script: Any, make_plan: Any, watch: Any) -> None:
    """A pair that nests, and one that crosses, both begun by the parent."""
    plan = make_plan(("x", (), None), ("y", (), None), ("c", (), None))
    probes = [
        Probe(Site(8, 8), role, number, "marker", pair=pair, crosses=pair == "y")
        for number, pair in enumerate(("x", "y"))
        for role in ("opens", "closes")
    ]
    plan = replace(plan, probes=(*probes, *plan.probes[4:]))
    script.enter(0, LOW)
    script.enter(1, LOW)
    script.fork(8)
    script.enter(C, LOW, tid=8)
    script.leave(C, LOW, 1, tid=8)
    script.leave(1, LOW, tid=8)
    script.leave(0, LOW, tid=8)
    steps, matcher = watch(plan, script.batch())
    assert steps == [
        *("0 > x", "1 8 forked by 7", "1 > c", "1 < c = None"),
        *("1 <7 y = None", "0 <7 x = None", "1 > y", "1 < y open", "0 < x open"),
    ]
    assert matcher.calls == 3


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


def test_the_tree(forking: Batch, plan: Plan, render: Any) -> None:
    """The parent's call has a line before those of the child below it."""
    assert render("tree", plan, forking) == (
        " DURATION      TID  CALL\n"
        "                 7  ── t, a thread of 5\n"
        "                 7  a()\n"
        "                 8  ── t\n"
        "                 7  │ b()\n"
        "                 8  │ │ ── forked by 7\n"
        "   100 ns        8  │ │ c() = 1\n"
        "                 8  │ └ b = 2 (entered in 7)\n"
        "   500 ns        7  │ └ b = 4\n"
        "   700 ns        7  └ a = 5\n"
    )


def test_racket(forking: Batch, plan: Plan, render: Any) -> None:
    assert render("racket", plan, forking) == (
        ">(a)\n> (b)\n8 ;    forked by 7\n8 > >(c)\n8 < <1\n8 < 2 ; entered in 7\n7 < 4\n7 <5\n"
    )


def test_json_lines(forking: Batch, plan: Plan, render: Any) -> None:
    rows = [json.loads(line) for line in render("jsonl", plan, forking).splitlines()]
    calls = [(row["name"], row["tid"]) for row in rows if row["type"] == "call"]
    assert calls == [("c", 8), ("b", 7), ("a", 7)]
    assert rows[2] == {
        **{"type": "fork", "pid": 8, "tid": 8, "depth": 2, "time": 1300},
        **{"parent": 7, "parent_pid": 5},
    }
    assert [row for row in rows if row["type"] == "inherited"] == [
        {
            **{"type": "inherited", "name": "b", "args": [], "result": 2, "start": 1200},
            **{"until": 1600, "forked": 1300, "maker": 7, "pid": 8, "tid": 8, "depth": 1},
            "end": "returned",
        },
    ]


def test_chrome(forking: Batch, plan: Plan, render: Any) -> None:
    """Continued calls are slices of another name, from the fork on."""
    events = json.loads(render("chrome", plan, forking))["traceEvents"]
    slices = [(e["name"], e["ts"], e["dur"], e["tid"]) for e in events if e["ph"] == "X"]
    assert slices == [
        *(("c", 1.4, 0.1, 8), ("b (forked)", 1.3, 0.3, 8)),
        *(("b", 1.2, 0.5, 7), ("a", 1.1, 0.7, 7)),
    ]
    open_calls = [(e["name"], e["ts"], e["tid"]) for e in events if e["ph"] == "B"]
    assert open_calls == [("a (forked)", 1.3, 8)]


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


def test_forks_do_not_count_where_events_are_limited(script: Any) -> None:
    for child in range(20, 25):
        script.fork(child)
        script.enter(A, HIGH)
    whole = script.batch()
    assert wire.count_limited(whole) == 5
    assert wire.cut(whole, 5) is whole
    for wanted in range(5):
        cut = wire.cut(whole, wanted)
        assert wire.count_limited(cut) == wanted
        assert wire.count_events(cut) == wanted
    kinds = [event.kind for event in wire.decode(wire.cut(whole, 1))]
    assert kinds[0] == FORK
    assert len(kinds) == 2


def test_a_plan_without_probes_yet(make_plan: Any) -> None:
    """A plan may grow."""
    plan = replace(make_plan(("a", (), INT)), functions=(), probes=())
    head = (1000, 0, 0, 0, 5, 7, FORK, 0, 0, 0)
    CallMatcher(plan, FORMATS["tree"].load()(io.StringIO(), plan)).feed(
        Batch(EVENT.pack(*head, 8, 1 << 32, *[0] * 4))
    )


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


def test_what_has_done_nothing_yet_and_executes_a_program(
    script: Any, plan: Plan, watch: Any
) -> None:
    script.enter(A, HIGH)
    script.fork(8)
    script.executes(1, tid=8)
    script.enter(B, LOW, tid=8)
    steps, _ = watch(plan, script.batch())
    assert steps == ["0 > a", "0 > b", "0 < a open", "0 < b open"]


def test_calls_whose_returns_are_not_watched_and_that_may_have_been_over(
    script: Any, plan: Plan, watch: Any
) -> None:
    """Nothing is said of them where the child shows that they are over there."""
    entries = tuple(probe for probe in plan.probes if probe.role == "opens")
    plan = replace(plan, probes=entries)

    def enter(function: int, frame: int, tid: int = 7) -> None:
        script.hit(function, frame, tid=tid, kind=OPEN)

    enter(A, HIGH)
    enter(B, LOW)
    script.fork(8, LOW - 64)
    enter(C, LOW, 8)
    script.fork(9, LOW - 64)
    enter(C, HIGH, 9)
    script.fork(10, LOW - 64)
    enter(C, LOW - 128, 10)
    steps, _ = watch(plan, script.batch())
    assert steps[:9] == [
        *("0 > a", "1 > b", "1 8 forked by 7", "1 > c", "0 > c"),
        *("2 10 forked by 7", "2 > c", "1 < b open", "0 < a open"),
    ]
