"""Calls where threads may switch stacks unseen: none counts as left, none gets another's result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbtrace.model import Integer

INT = Integer("int", 4, True)
A = 0  # function a
HIGH = 0x3000  # its frame


@pytest.fixture
def plan(make_plan):
    return replace(make_plan(("a", (), INT), ("b", (), INT)), unseen_switches="any")


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
