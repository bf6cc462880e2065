from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbtrace.errors import CaptureError
from lbtrace.model import ON_ALTSTACK, OPEN, UNHOOKED, Batch, Integer, Probe, Site, Thread, wire

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


def test_threads_do_not_mix(script, plan, watch):
    script.call(A, tid=1)
    script.call(B, tid=2)
    script.ret(A, 1, tid=1)
    script.ret(B, 2, tid=2)
    steps, matcher = watch(plan, script.batch())
    assert steps == ["0 > a", "0 > b", "0 < a = 1", "0 < b = 2"]
    assert matcher.threads == 2


def test_a_goroutine_keeps_its_calls_when_it_changes_threads(script, plan, watch):
    script.enter(A, HIGH, tid=1, goroutine=9)
    script.enter(B, MIDDLE, tid=2, goroutine=9)
    script.leave(B, MIDDLE, 2, tid=1, goroutine=9)
    script.leave(A, HIGH, 1, tid=2, goroutine=9)
    assert watch(plan, script.batch())[0] == ["0 > a", "1 > b", "1 < b = 2", "0 < a = 1"]


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


def test_mutual_tail_calls_return_innermost_first(script, plan, watch):
    for probe in (A, B, A):
        script.enter(probe, HIGH)
    for probe in (A, B, A):
        script.leave(probe, HIGH, 3)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 > a", "2 < a = 3", "1 < b = 3", "0 < a = 3"
    ]  # fmt: skip


def test_a_call_that_throws_in_a_loop_does_not_pile_up(script, plan, watch):
    script.enter(A, HIGH)
    for _ in range(3):
        script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        "0 > a", *["1 > b", "1 < b unwound"] * 3, "0 < a = 1"
    ]  # fmt: skip


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


def test_calls_still_open_end_open(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, LOW)
    assert watch(plan, script.batch())[0][2:] == ["1 < b open", "0 < a open"]


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


def test_the_kernel_delivers_64_nested_returns(script, fib_plan, watch):
    for n in range(70):
        script.call(0, n)
    undelivered = 6
    script.stacks[7] = script.stacks[7][:-undelivered]
    for n in reversed(range(64)):
        script.ret(0, n)
    steps, matcher = watch(fib_plan, script.batch())
    ends = [step.split(" ", 3)[3] for step in steps if "<" in step]
    assert ends == ["open"] * undelivered + [f"= {n}" for n in reversed(range(64))]
    assert matcher.return_depth == undelivered


def test_max_depth_hides_and_still_matches(script, fib_plan, watch):
    script.fib(4)
    steps, matcher = watch(fib_plan, script.batch(), max_depth=2)
    assert steps == [
        "0 > fib 4", "1 > fib 3", "1 < fib = 2", "1 > fib 2", "1 < fib = 1", "0 < fib = 3"
    ]  # fmt: skip
    assert matcher.calls == 9


def test_a_fault_is_no_number(script, fib_plan, watch):
    script.call(0, 77, faults=1)
    assert "77" not in watch(fib_plan, script.batch())[0][0]


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


@pytest.fixture
def looping(make_plan):
    """How a function that jumps back to its first instruction is planned, in each way."""

    def plan(way: str):
        planned = make_plan(("f", (INT,), INT), ("g", (), INT))
        f, g = planned.functions
        functions = (replace(f, loops_to_entry=True, returns=way), g)
        if way == "uretprobe":
            return replace(planned, functions=functions)
        leaves = Probe(Site(0x1020, 0x1020), "closes", 0)
        return replace(
            planned, functions=functions, probes=(planned.probes[0], leaves, *planned.probes[2:])
        )

    return plan


def test_a_jump_to_the_first_instruction_is_no_call(script, looping, watch):
    for value in (3, 2, 1):
        script.enter(0, HIGH, value)
        script.enter(1, LOW)
        script.leave(1, LOW, 9)
    script.leave(0, HIGH, 7)
    script.enter(0, HIGH, 4)
    script.leave(0, HIGH, 8)
    steps, matcher = watch(looping("sites"), script.batch())
    called = ["1 > g", "1 < g = 9"]
    assert steps == ["0 > f 3", *called * 3, "0 < f = 7", "0 > f 4", "0 < f = 8"]
    assert matcher.calls == 5
    assert matcher.returns_without_entry == 0


def test_a_uretprobe_delivers_a_return_for_each_round(script, looping, watch):
    plan = looping("uretprobe")
    script.enter(0, HIGH, 2)
    script.enter(1, HIGH)  # a tail call
    for value in (5, 4, 3):
        script.enter(0, HIGH, value)  # and one back, which goes round
    for _ in range(3):
        script.leave(0, HIGH, 6)
    script.leave(1, HIGH, 6)
    script.leave(0, HIGH, 6)
    script.enter(0, HIGH, 1)
    script.leave(0, HIGH, 1)
    steps, matcher = watch(plan, script.batch())
    assert steps == [
        *("0 > f 2", "1 > g", "2 > f 5", "2 < f = 6", "1 < g = 6", "0 < f = 6"),
        *("0 > f 1", "0 < f = 1"),
    ]
    assert matcher.returns_without_entry == 0


def test_rounds_use_up_the_returns_that_the_kernel_delivers(script, looping, watch):
    for value in range(1000):
        script.enter(0, HIGH, value)
    script.enter(1, LOW)
    for _ in range(64):
        script.leave(0, HIGH, 6)
    for _ in range(2):
        script.enter(1, HIGH)
        script.leave(1, HIGH, 6)
    steps, matcher = watch(looping("uretprobe"), script.batch())
    assert steps[:4] == ["0 > f 0", "1 > g", "1 < g open", "0 < f = 6"]
    assert steps[4:] == ["0 > g", "0 < g = 6"] * 2
    assert (matcher.return_depth, matcher.returns_without_entry) == (1, 0)


@pytest.mark.parametrize("way", ["sites", "uretprobe"])
def test_a_call_after_a_landing_is_no_further_round(script, looping, watch, way):
    plan = looping(way)
    landing = Probe(Site(0x9000, 0x9000), "landing")
    plan = replace(plan, probes=(*plan.probes, landing))
    script.enter(1, HIGH)
    script.enter(0, LOW, 3)
    script.enter(0, LOW, 2)
    script.hit(4, MIDDLE)
    script.enter(0, LOW, 1)
    script.leave(0, LOW, 1)
    script.leave(1, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        *("0 > g", "1 > f 3", "1 < f unwound", "1 > f 1", "1 < f = 1", "0 < g = 1")
    ]


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


def test_calls_not_hooked_do_not_nest_where_one_follows_another(script, plan, watch):
    script.enter(A, HIGH)
    for probe in (B, B, C):
        script.enter(probe, LOW, bits=UNHOOKED)
    script.leave(A, HIGH, 1)
    steps, matcher = watch(plan, script.batch())
    assert [step for step in steps if ">" in step] == ["0 > a", "1 > b", "1 > b", "1 > c"]
    assert "unwound" not in " ".join(steps)
    assert matcher.return_depth == 0


def test_calls_of_entries_only_do_not_nest_where_one_follows_another(script, plan, watch):
    probes = plan.probes[::2]
    for _ in range(2):
        script.hit(A, HIGH, kind=OPEN)
        for probe in (B, C, B):
            script.hit(probe, LOW, kind=OPEN)
    steps, _ = watch(replace(plan, probes=probes), script.batch())
    assert [step for step in steps if ">" in step] == ["0 > a", "1 > b", "1 > c", "1 > b"] * 2


def test_calls_that_are_not_hooked_do_not_count_for_the_limit_of_hooks(script, plan, watch):
    for depth in range(70):
        script.enter(A, HIGH - 16 * depth, bits=UNHOOKED)
    _, matcher = watch(plan, script.batch())
    assert matcher.return_depth == 0


def test_an_alternate_signal_stack_lies_below_the_thread_it_interrupts(script, plan, watch):
    script.enter(A, LOW)
    script.enter(B, HIGH, bits=ON_ALTSTACK)
    script.enter(C, MIDDLE, bits=ON_ALTSTACK | UNHOOKED)
    script.leave(B, HIGH, 2, bits=ON_ALTSTACK)
    script.leave(A, LOW, 1)
    assert watch(plan, script.batch())[0] == [
        "0 > a", "1 > b", "2 > c", "2 < c open", "1 < b = 2", "0 < a = 1"
    ]  # fmt: skip


def test_a_signal_may_interrupt_a_stack_on_which_nothing_was_called_since(script, plan, watch):
    """A fiber returns to where it was begun, and a handler runs on a third stack. So does what the
    handler calls after a fiber of its own."""
    plan = replace(plan, probes=(*plan.probes, Probe(Site(0x9000, 0x9000), "stack")))
    script.enter(A, HIGH)
    script.hit(6, HIGH - 64, LOW, 0x800)
    script.enter(B, LOW + 0x700, goroutine=0x1000)
    script.leave(B, LOW + 0x700, 2, goroutine=0x1000)
    script.interrupt(HIGH - 64)
    script.enter(C, MIDDLE, bits=ON_ALTSTACK)
    script.enter(B, LOW + 0x700, goroutine=0x1000)
    script.leave(B, LOW + 0x700, 2, goroutine=0x1000)
    script.enter(B, MIDDLE - 64, bits=ON_ALTSTACK)
    script.leave(B, MIDDLE - 64, 4, bits=ON_ALTSTACK)
    script.leave(C, MIDDLE, 3, bits=ON_ALTSTACK)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == [
        *("0 > a", "0 > b", "0 < b = 2", "1 > c", "0 > b", "0 < b = 2", "2 > b", "2 < b = 4"),
        *("1 < c = 3", "0 < a = 1"),
    ]


def test_a_session_hooks_a_call_that_loops_once(script, make_plan, watch):
    planned = make_plan(("f", (), INT), ("g", (), INT))
    functions = (replace(planned.functions[0], loops_to_entry=True), planned.functions[1])
    script.enter(A, HIGH)
    for _ in range(100):
        script.enter(B, MIDDLE)
        script.leave(B, MIDDLE, 2)
        script.enter(A, HIGH, bits=UNHOOKED)
    script.leave(A, HIGH, 1)
    script.enter(A, HIGH)
    script.leave(A, HIGH, 1)
    steps, matcher = watch(replace(planned, functions=functions), script.batch())
    once = ["0 > f", *["1 > g", "1 < g = 2"] * 100, "0 < f = 1", "0 > f", "0 < f = 1"]
    assert steps == once
    assert matcher.return_depth == 0
