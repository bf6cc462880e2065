from __future__ import annotations

from lbtrace.plan.call_graph import cycles


def test_who_calls_itself_and_who_calls_in_a_circle():
    graph = {1: {1, 2}, 2: {3}, 3: {4}, 4: {2}, 5: {1, 6}, 6: set()}
    assert sorted(map(sorted, cycles(graph))) == [[1], [2, 3, 4]]


def test_a_chain_has_no_cycle():
    assert cycles({n: {n + 1} for n in range(5000)} | {5000: set()}) == []


def test_one_long_circle():
    (found,) = cycles({n: {(n + 1) % 5000} for n in range(5000)})
    assert len(found) == 5000


def test_two_circles_that_share_a_function_are_one():
    assert sorted(cycles({1: {2}, 2: {1, 3}, 3: {2}})[0]) == [1, 2, 3]
