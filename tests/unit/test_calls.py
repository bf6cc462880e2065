from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbtrace.errors import CaptureError
from lbtrace.model import OPEN, UNHOOKED, Batch, Integer, Probe, Site, Thread, wire

INT = Integer("int", 4, True)
A, B, C = 0, 1, 2  # functions a, b, c
HIGH, MIDDLE, LOW = 0x3000, 0x2000, 0x1000  # frames: outer to inner


@pytest.fixture
def plan(make_plan):
    return make_plan(("a", (), INT), ("b", (), INT), ("c", (), INT))


def test_recursion_is_a_tree(script, fib_plan, watch):
    script.fib(2)
    steps, matcher = watch(fib_plan, script.batch())
    assert steps == ["0 > fib 2", "1 > fib 1", "1 < fib = 1", "1 > fib 0", "1 < fib = 0",
                     "0 < fib = 1"]  # fmt: skip
    assert (matcher.calls, matcher.threads, matcher.processes) == (3, 1, 1)


def test_a_trace_may_be_cut_into_batches_anywhere(script, fib_plan, watch):
    script.fib(5)
    batch = script.batch()
    whole, _ = watch(fib_plan, batch)
    size = len(script.records[0]) if script.records else 96
    pieces = [type(batch)(batch.events[i : i + size]) for i in range(0, len(batch.events), size)]
    assert watch(fib_plan, *pieces)[0] == whole


def test_an_exception_through_frames_unwinds_them(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.enter(C, LOW)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 > c", "2 < c unwound", "1 < b unwound", "0 < a = 1"
    ]  # fmt: skip


def test_an_entry_above_a_frame_shows_it_was_left(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.enter(C, MIDDLE)
    assert watch(plan, script.batch())[0][:4] == ["0 > a", "1 > b", "1 < b unwound", "1 > c"]


def test_a_tail_call_returns_with_the_call_it_replaced(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, HIGH)
    script.leave(B, HIGH, 3)
    script.leave(A, HIGH, 3)
    assert watch(plan, script.batch())[0] == ["0 > a", "1 > b", "1 < b = 3", "0 < a = 3"]


def test_a_stale_call_is_not_taken_for_a_tail_caller_twice(script, plan, watch):
    """b is left by longjmp; c is called at the same frame, returns, is called again."""
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.enter(C, LOW)
    script.leave(C, LOW, 1)
    script.enter(C, LOW)
    script.leave(C, LOW, 2)
    script.leave(A, HIGH, 3)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 > c", "2 < c = 1", "1 < b unwound", "1 > c", "1 < c = 2", "0 < a = 3"
    ]  # fmt: skip


def test_a_loss_leaves_the_end_of_earlier_calls_open(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.enter(C, LOW, lost=3)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 lost 3", "2 > c", "2 < c unwound", "1 < b open", "0 < a = 1"
    ]  # fmt: skip


def test_a_return_without_entry_is_counted_and_not_shown(script, plan, watch):
    script.leave(B, MIDDLE, 5)
    script.enter(A, HIGH)
    script.leave(B, HIGH, 5)
    script.leave(A, HIGH, 1)
    steps, matcher = watch(plan, script.batch())
    assert steps == ["0 > a", "0 < a = 1"]
    assert (matcher.calls, matcher.returns_without_entry) == (1, 2)


def test_a_reused_thread_number_begins_anew(script, plan, watch):
    script.enter(A, HIGH, tid=7)
    script.pids[7] = 99
    script.enter(B, LOW, tid=7)
    script.leave(B, LOW, 1, tid=7)
    assert watch(plan, script.batch())[0] == ["0 > a", "0 < a open", "0 > b", "0 < b = 1"]


def test_names_are_shown_where_they_change(script, plan, watch):
    script.enter(A, HIGH)
    script.leave(A, HIGH, 1)
    script.enter(B, HIGH)
    threads = (Thread(5, 7, "old", 1100), Thread(5, 7, "new", 1300))
    assert watch(plan, script.batch(threads))[0] == [
        "thread 7 old", "0 > a", "0 < a = 1", "thread 7 new", "0 > b", "0 < b open"
    ]  # fmt: skip


def test_threads_whose_events_came_late_are_named_in_time(script, plan, watch):
    script.enter(A, HIGH, tid=7)
    script.enter(B, HIGH, tid=8)
    threads = (Thread(5, 8, "second", 1200), Thread(5, 7, "first", 1100))
    assert watch(plan, script.batch(threads))[0][:4] == [
        "thread 7 first", "0 > a", "thread 8 second", "0 > b"
    ]  # fmt: skip


def test_a_process_that_executes_a_program_leaves_all_its_calls(script, plan, watch):
    script.enter(A, HIGH, tid=8)
    script.enter(B, MIDDLE, tid=8, goroutine=3)
    script.enter(C, LOW, tid=5)
    threads = (Thread(5, 8, "old", 1100, 60, 0, 3), Thread(5, 5, "new", 1300, 50, 0, 4))
    assert watch(plan, script.batch(threads))[0] == [
        "thread 8 old", "0 > a", "0 > b", "0 < a open", "0 < b open", "thread 5 new", "0 > c",
        "0 < c open",
    ]  # fmt: skip


def test_a_reused_number_is_another_process(script, plan, watch):
    script.enter(A, HIGH, tid=5)
    script.enter(B, LOW, tid=5)
    threads = (Thread(5, 5, "same", 1100, 50, 0, 3), Thread(5, 5, "same", 1200, 70, 0, 3))
    steps, matcher = watch(plan, script.batch(threads))
    assert steps[1:] == ["0 > a", "0 < a open", "thread 5 same", "0 > b", "0 < b open"]
    assert (matcher.threads, matcher.processes) == (2, 2)


def test_max_depth_hides_and_still_matches(script, fib_plan, watch):
    script.fib(4)
    steps, matcher = watch(fib_plan, script.batch(), max_depth=2)
    assert steps == [
        "0 > fib 4", "1 > fib 3", "1 < fib = 2", "1 > fib 2", "1 < fib = 1", "0 < fib = 3"
    ]  # fmt: skip
    assert matcher.calls == 9


def test_an_unknown_probe_is_an_error(script, fib_plan, watch):
    script.hit(3, HIGH)
    with pytest.raises(CaptureError, match="probe 3"):
        watch(fib_plan, script.batch())


def test_what_is_left_is_over_where_code_continues(script, make_plan, watch):
    plan = make_plan(("f", (INT,), INT))
    landing = Probe(Site(0x9000, 0x9000), "landing")
    plan = replace(plan, probes=(*plan.probes, landing))
    script.hit(2, 0x6FF8, tid=8)  # of a thread that has called nothing
    script.enter(0, 0x7000, 1)
    script.enter(0, 0x6000, 2)
    script.enter(0, 0x5000, 3)
    script.hit(2, 0x6000)
    script.enter(0, 0x4000, 4)
    script.leave(0, 0x4000, 4)
    script.leave(0, 0x7000, 1)
    steps, matcher = watch(plan, script.batch())
    assert steps == [
        *("0 > f 1", "1 > f 2", "2 > f 3", "2 < f unwound", "1 < f unwound"),
        *("1 > f 4", "1 < f = 4", "0 < f = 1"),
    ]
    assert matcher.threads == 1


def test_a_call_whose_return_may_go_unseen_ends_open(script, plan, watch):
    """As where probes are detached one by one."""
    script.enter(A, HIGH)
    script.enter(B, MIDDLE)
    script.enter(C, LOW)
    script.enter(C, LOW)
    blind = wire.unprobed(script.time + 50)
    batches = [script.batch(), Batch(blind)]
    script.leave(A, HIGH, 1)
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    steps, matcher = watch(plan, *batches, script.batch())
    assert [step for step in steps if "<" in step] == [
        *("2 < c unwound", "2 < c open", "1 < b open", "0 < a = 1", "1 < b open", "0 < a = 1")
    ]
    assert (matcher.threads, matcher.processes) == (1, 1)


def test_calls_made_before_hits_were_missed_end_open(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.enter(B, LOW)
    batches = [script.batch(), Batch(wire.unprobed(script.time - 50, script.time + 50))]
    script.enter(B, LOW)
    script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    assert [step for step in watch(plan, *batches, script.batch())[0] if "<" in step] == [
        *("1 < b unwound", "1 < b open", "1 < b unwound", "1 < b unwound", "0 < a = 1")
    ]


def test_a_call_whose_return_is_not_hooked_ends_open(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, MIDDLE, bits=UNHOOKED)
    script.enter(C, LOW)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 > c", "2 < c unwound", "1 < b open", "0 < a = 1"
    ]  # fmt: skip


def test_calls_of_entries_only_do_not_nest_where_one_follows_another(script, plan, watch):
    probes = plan.probes[::2]
    for _ in range(2):
        script.hit(A, HIGH, kind=OPEN)
        for probe in (B, C, B):
            script.hit(probe, LOW, kind=OPEN)
    steps, _ = watch(replace(plan, probes=probes), script.batch())
    assert [step for step in steps if ">" in step] == ["0 > a", "1 > b", "1 > c", "1 > b"] * 2
