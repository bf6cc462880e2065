from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from lbtrace.model import Clock, GoLayout, Integer, Plan, Void
from lbtrace.text import duration

INT = Integer("int", 4, True)


def test_the_tree(script, fib_plan, render):
    script.fib(2)
    assert render("tree", fib_plan, script.batch()).splitlines() == [
        " DURATION      TID  CALL",
        "                 7  fib(n=2)",
        "   100 ns        7  │ fib(n=1) = 1",
        "   100 ns        7  │ fib(n=0) = 0",
        "   500 ns        7  └ fib = 1",
    ]


def test_what_is_unusual_is_shown_in_its_place(script, make_plan, render):
    plan = make_plan(("f", (INT,), INT), ("g", (), Void()))
    script.enter(0, 0x3000, 1)
    script.enter(0, 0x2000, 2)
    script.enter(0, 0x2800, 3)
    script.enter(1, 0x2000, lost=1)
    script.leave(1, 0x2000)
    lines = render("tree", plan, script.batch()).splitlines()
    assert [line[20:] for line in lines[1:]] == [
        "f(n=1)",
        "│ f(n=2) ✗ unwound",
        "│ f(n=3)",
        "│ │ ! 1 event lost here",
        "│ │ g()",
        "│ └ f … no return seen",
        "└ f … no return seen",
    ]


def test_returns_that_are_not_watched_are_not_missed(script, make_plan, render):
    plan = make_plan(("f", (INT,), INT), ("g", (), Void()))
    unprobed = [replace(function, returns="none: asked for") for function in plan.functions]
    script.enter(0, 0x3000, 1)
    script.enter(1, 0x2000)
    lines = render("tree", replace(plan, functions=tuple(unprobed)), script.batch()).splitlines()
    assert [line[20:] for line in lines[1:]] == ["f(n=1)", "│ g()", "└ f"]


def test_no_depth_leaves_80_columns(script, fib_plan, render):
    for n in range(5000):
        script.call(0, n)
    for n in range(5000):
        script.ret(0, -n)
    output = render("tree", fib_plan, script.batch())
    assert max(map(len, output.splitlines())) <= 80
    assert "[4999] fib(n=4999) = 0" in output


def test_stacks_and_goroutines_are_not_taken_for_threads(script, fib_plan, render):
    script.enter(0, 0x3000, 1, tid=7, goroutine=2)
    script.enter(0, 0x2000, 2, tid=7, goroutine=2)
    stack = render("tree", fib_plan, script.batch()).splitlines()[1:]
    assert [line.split()[0] for line in stack] == ["s1"] * len(stack)
    go = GoLayout("register", 152, 8)
    binaries = tuple(replace(binary, go=go) for binary in fib_plan.binaries)
    lines = render("tree", replace(fib_plan, binaries=binaries), script.batch()).splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["g2"] * len(lines)


def test_stacks_are_named_in_the_order_of_their_calls(script, fib_plan, render):
    """Those of a forked process lie at the same addresses."""
    first, second = 0x7F57_81A1_4010, 0x7F57_81A1_0010
    script.pids[8] = 6
    for tid, stack in ((7, first), (7, second), (8, second), (7, first)):
        script.call(0, 1, tid=tid, goroutine=stack)
        script.ret(0, 1, tid=tid, goroutine=stack)
    assert render("tree", fib_plan, script.batch()).splitlines() == [
        " DURATION      TID  CALL",
        "                s1  ── a stack of 5, at 0x7f5781a14010",
        "   100 ns       s1  fib(n=1) = 1",
        "                s2  ── a stack of 5, at 0x7f5781a10010",
        "   100 ns       s2  fib(n=1) = 1",
        "                s3  ── a stack of 6, at 0x7f5781a10010",
        "   100 ns       s3  fib(n=1) = 1",
        "   100 ns       s1  fib(n=1) = 1",
    ]


def test_many_calls_on_stacks_are_as_few(script, fib_plan, render):
    """They are not matched natively."""
    for n in range(5000):
        script.call(0, n, goroutine=0x7F57_81A1_4010)
        script.ret(0, n, goroutine=0x7F57_81A1_4010)
    lines = render("tree", fib_plan, script.batch()).splitlines()[1:]
    assert {line[9:20] for line in lines} == {"       s1  "}


def test_threads_stay_apart(script, fib_plan, render):
    script.call(0, 1, tid=1)
    script.call(0, 2, tid=2)
    script.call(0, 3, tid=1)
    script.ret(0, 9, tid=2)
    script.ret(0, 3, tid=1)
    script.ret(0, 1, tid=1)
    lines = render("tree", fib_plan, script.batch()).splitlines()[1:]
    assert [line[9:] for line in lines] == [
        "        1  fib(n=1)",
        "        2  fib(n=2) = 9",
        "        1  │ fib(n=3) = 3",
        "        1  └ fib = 1",
    ]


def test_untyped_arguments_have_no_names(script, fib_plan, render):
    plain = Plan(
        fib_plan.binaries,
        tuple(type(f)(f.name, 1, 1, 1, parameters=f.parameters) for f in fib_plan.functions),
        fib_plan.probes,
    )
    script.call(0, 3)
    assert "fib(3)" in render("tree", plain, script.batch())


def test_colour_changes_no_word(script, fib_plan, render):
    script.fib(3)
    batch = script.batch()
    colored = render("tree", fib_plan, batch, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == render("tree", fib_plan, batch)


def test_a_name_cannot_steer_the_terminal(script, make_plan, render):
    script.call(0)
    assert "\x1b" not in render("tree", make_plan(("f\x1b[2J", (), None)), script.batch())


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (9_994, "9.99 µs"),
        (9_996, "10.0 µs"),
        (99_960, "100 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (123_456_789, "123 ms"),
        (5_000_000_000, "5.00 s"),
        (86_400_000_000_000, "86400 s"),
    ],
)
def test_durations_have_three_digits(nanoseconds, words):
    assert duration(nanoseconds) == words


def test_the_time_of_each_line(script, fib_plan, render):
    """Of day where it was traced, since the trace began, and since the line above."""
    script.time = 5_000_000_000
    script.fib(2)
    batch = script.batch()
    start = script.time - 500
    began = replace(fib_plan, clock=Clock(start + 1, 86_399 * 10**9 + 999_999_901, 7200))
    columns = {
        kind: [line[:15].strip() for line in render("tree", began, batch, time=kind).splitlines()]
        for kind in ("clock", "relative", "delta")
    }
    assert columns["clock"] == ["TIME", "01:59:59.999999", *["02:00:00.000000"] * 3]
    assert columns["relative"] == [
        *("RELATIVE", "-0.000000001", "0.000000099", "0.000000299", "0.000000499"),
    ]
    assert columns["delta"] == [
        *("DELTA", "0.000000000", "0.000000100", "0.000000200", "0.000000200"),
    ]
