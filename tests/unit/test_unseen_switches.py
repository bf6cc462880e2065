"""Calls where threads may switch stacks unseen: none counts as left, none gets another's result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbtrace.model import Integer

INT = Integer("int", 4, True)
A, B = 0, 1  # functions a, b
HIGH, LOW = 0x3000, 0x1000  # frames: outer to inner


@pytest.fixture
def plan(make_plan):
    return replace(make_plan(("a", (), INT), ("b", (), INT)), unseen_switches="earlier")


def test_what_seems_to_be_left_ends_open(script, plan, watch):
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    assert watch(plan, script.batch())[0] == ["0 > a", "1 > b", "1 < b open", "0 < a = 1"]


def test_a_program_that_was_seen_to_begin_leaves_calls(script, plan, watch):
    script.executes(2)
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    assert "1 < b unwound" in watch(plan, script.batch())[0]
    plan = replace(plan, unseen_switches="any")
    script.executes(2)
    script.enter(A, HIGH)
    script.enter(B, LOW)
    script.leave(A, HIGH, 1)
    assert "1 < b open" in watch(plan, script.batch())[0]


def test_a_return_of_another_threads_call_is_no_result(script, plan, watch):
    """A fiber waits in a call that ends on another thread, which makes the next one, which ends on
    the first thread."""
    script.pids |= {1: 5, 2: 5}
    script.enter(A, HIGH, tid=1)
    script.leave(A, HIGH, 10, tid=2)
    script.enter(A, HIGH, tid=2)
    script.leave(A, HIGH, 20, tid=1)
    steps, matcher = watch(plan, script.batch())
    assert steps == ["0 > a", "0 > a", "0 < a open", "0 < a open"]
    assert matcher.returns_without_entry == 1
