from __future__ import annotations

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from lbtrace.model import GoLayout, Integer, Pointer, Probe, Site, Thread

INT = Integer("int", 4, True)


def events(output, *phases):
    return [e for e in json.loads(output)["traceEvents"] if e["ph"] in phases]


def slices(output):
    """What a viewer makes of a trace: name, thread, begin, end, arguments; and the unfinished."""
    done = []
    for event in events(output, "X"):
        begin, end = event["ts"], round(event["ts"] + event["dur"], 3)
        inside = [each for each in done if each[1] == event["tid"] and each[3] > begin]
        assert all(begin <= each[2] and each[3] <= end for each in inside), "they nest"
        done.append((event["name"], event["tid"], begin, end, event["args"]))
    return done, [event["name"] for event in events(output, "B")]


def test_calls_are_slices_with_arguments_and_result(script, fib_plan, render):
    script.fib(2)
    assert slices(render("chrome", fib_plan, script.batch())) == (
        [
            ("fib", 7, 1.2, 1.3, {"n": 1, "result": 1}),
            ("fib", 7, 1.4, 1.5, {"n": 0, "result": 0}),
            ("fib", 7, 1.1, 1.6, {"n": 2, "result": 1}),
        ],
        [],
    )


def test_times_keep_their_nanoseconds(script, fib_plan, render):
    script.time = 10**15 + 23
    script.fib(1)
    assert '"ts":1000000000000.123,' in render("chrome", fib_plan, script.batch())


def test_unwound_calls_end_where_their_thread_is_seen_again(script, fib_plan, render):
    script.enter(0, 0x3000, 1)
    script.enter(0, 0x2000, 2)
    script.enter(0, 0x1000, 3)
    script.enter(0, 0x2800, 4)
    script.leave(0, 0x2800, 9)
    script.leave(0, 0x3000, 9)
    done, unfinished = slices(render("chrome", fib_plan, script.batch()))
    assert [(args["n"], begin, end, args.get("end")) for _, _, begin, end, args in done] == [
        (3, 1.3, 1.4, "unwound"), (2, 1.2, 1.4, "unwound"), (4, 1.4, 1.5, None), (1, 1.1, 1.6, None)
    ]  # fmt: skip
    assert not unfinished


@pytest.mark.parametrize("role", ["landing", "lane end"])
def test_unwound_calls_end_though_nothing_follows(script, fib_plan, render, role):
    """An exception leaves them for a function that is not traced, or the goroutine ends."""
    go = GoLayout("register", 152, 8) if role == "lane end" else None
    binaries = tuple(replace(b, go=go) for b in fib_plan.binaries)
    probes = (*fib_plan.probes, Probe(Site(8, 8), role))
    plan = replace(fib_plan, binaries=binaries, probes=probes)
    goroutine = 8 if go else 0
    script.enter(0, 0x3000, 1, goroutine=goroutine)
    script.enter(0, 0x2000, 2, goroutine=goroutine)
    script.hit(len(fib_plan.probes), 0x4000, goroutine=goroutine)
    script.enter(0, 0x1000, 3, tid=9)
    script.leave(0, 0x1000, 3, tid=9)
    done, unfinished = slices(render("chrome", plan, script.batch()))
    assert [(args["n"], begin, end, args.get("end")) for _, _, begin, end, args in done] == [
        (2, 1.2, 1.3, "unwound"), (1, 1.1, 1.3, "unwound"), (3, 1.4, 1.5, None)
    ]  # fmt: skip
    assert not unfinished


def test_open_calls_do_not_finish(script, fib_plan, render):
    script.call(0, 1)
    assert slices(render("chrome", fib_plan, script.batch())) == ([], ["fib"])


def test_processes_and_threads_have_names(script, fib_plan, render):
    script.call(0, 1)
    threads = (Thread(5, 7, 'w"ork'), Thread(6, 6, "other"))
    named = events(render("chrome", fib_plan, script.batch(threads)), "M")
    assert {(e["name"], e["pid"], e["args"]["name"]) for e in named} == {
        ("thread_name", 5, 'w"ork'),
        ("thread_name", 6, "other"),
        ("process_name", 6, "other"),
        ("process_name", 5, "sample"),
    }


def test_losses_are_instants(script, fib_plan, render):
    script.call(0, 1, lost=4)
    (loss,) = events(render("chrome", fib_plan, script.batch()), "i")
    assert (loss["tid"], loss["ts"], loss["s"], loss["args"]) == (
        7,
        1.1,
        "t",
        {"count": 4, "entries": 0},
    )


def test_values_a_double_cannot_hold_are_text(script, make_plan, render):
    plan = make_plan(("f", (Integer("long", 8, True), Pointer("int *")), None))
    script.call(0, -(1 << 62), 0x7FFF12345678)
    (begin,) = events(render("chrome", plan, script.batch()), "B", "X")
    assert begin["args"] == {"n": str(-(1 << 62)), "m": "0x7fff12345678"}


def test_values_of_the_same_name_stay_apart(script, make_plan, render):
    plan = make_plan(("f", (INT, INT, INT), INT))
    (function,) = plan.functions
    names = zip(function.parameters, ("", "", "result"), strict=True)
    unnamed = tuple(replace(value, name=name) for value, name in names)
    script.call(0, 1, 2, 3)
    script.ret(0, 4)
    plan = replace(plan, functions=(replace(function, parameters=unnamed),))
    done, _ = slices(render("chrome", plan, script.batch()))
    assert done[0][-1] == {"": 1, "#2": 2, "result": 3, "result#2": 4}


@pytest.mark.parametrize("count", [0, 1, 600])
def test_it_is_json_whatever_the_number_of_calls(script, fib_plan, render, count):
    for _ in range(count):
        script.fib(1)
    trace = json.loads(render("chrome", fib_plan, script.batch()))
    assert trace["otherData"]["calls"] == count
    assert len([e for e in trace["traceEvents"] if e["ph"] == "X"]) == count


@pytest.mark.parametrize("count", [1, 400])
def test_goroutines_have_numbers_that_no_thread_has(script, fib_plan, render, count):
    """400 calls are written by native code."""
    go = GoLayout("register", 152, 8)
    plan = replace(fib_plan, binaries=tuple(replace(b, go=go) for b in fib_plan.binaries))
    for n in range(count):
        script.enter(0, 0x3000, n, tid=8)
        script.enter(0, 0x2000, n, tid=7, goroutine=8)
        script.leave(0, 0x3000, n, tid=8)
        script.leave(0, 0x2000, n, tid=7, goroutine=8)
    output = render("chrome", plan, script.batch())
    done, unfinished = slices(output)
    assert not unfinished
    assert Counter(tid for _, tid, *_ in done) == {8: count, (1 << 22) + 8: count}
    named = {each["tid"]: each["args"]["name"] for each in events(output, "M")}
    assert named[(1 << 22) + 8] == "goroutine 8"


def test_stacks_have_numbers_of_32_bits(script, fib_plan, render):
    """Perfetto takes larger ones for the main thread's."""
    stacks = 0x7F00_0000_1000, 0x404000
    for stack in stacks:
        script.enter(0, 0x2000, 1, goroutine=stack)
        script.leave(0, 0x2000, 1, goroutine=stack)
    output = render("chrome", fib_plan, script.batch())
    assert [tid for _, tid, *_ in slices(output)[0]] == [1 << 31, (1 << 31) + 1]
    named = [each["args"]["name"] for each in events(output, "M") if each["tid"] >= 1 << 31]
    assert named == [f"stack {stack:#x}" for stack in stacks]
