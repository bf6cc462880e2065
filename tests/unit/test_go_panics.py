"""Which panic has left a call of Go, and what Go says of indexes that are out of range."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lbtrace.calls.call_stack import Panic
from lbtrace.calls.go_panics import which
from lbtrace.model import Argument
from lbtrace.values.go_bounds import message
from lbtrace.values.record import Fields


@dataclass
class Call:
    """What is asked of a call."""

    frame: int
    start: int = 0


FIRST = Panic(100, 10, "first")


def test_calls_below_a_panic_or_after_it_are_not_left_by_it():
    assert which([FIRST], Call(100)) == which([FIRST], Call(900)) == "first"
    assert which([FIRST], Call(90)) is None
    assert which([FIRST], Call(200, start=11)) is None
    assert which([], Call(200)) is None


def test_the_frame_whose_deferred_call_panics_parts_two():
    both = [FIRST, Panic(50, 20, "second", running=300)]
    assert [which(both, Call(frame)) for frame in (60, 100, 299, 301)] == [
        *("second", "first", "first", "second")
    ]


def test_without_that_frame_it_is_not_known():
    assert which([FIRST, Panic(50, 20, "second")], Call(200)) is None
    assert which([FIRST, Panic(50, 20, "first")], Call(200)) == "first"
    assert which([FIRST, Panic(50, 20, "second")], Call(60)) == "second"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((5, 3, True, 0), "index out of range [5] with length 3"),
        ((-1, 3, True, 0), "index out of range [-1]"),
        ((-1, 3, False, 0), "index out of range [18446744073709551615] with length 3"),
        ((9, 4, True, 2), "slice bounds out of range [:9] with capacity 4"),
        ((4, 2, True, 3), "slice bounds out of range [4:2]"),
        ((-2, 2, True, 3), "slice bounds out of range [-2:]"),
        ((-2, 2, True, 7), "slice bounds out of range [-2::]"),
        ((4, 2, True, 4), "slice bounds out of range [::4] with length 2"),
    ],
)
def test_what_go_says_of_bounds(values: tuple[int, ...], said: str):
    names = ("x", "y", "signed", "code")
    fields = tuple(Argument(name, value) for name, value in zip(names, values, strict=True))
    assert str(message(Fields("runtime.boundsError", fields))) == said


def test_what_is_not_known_of_bounds():
    assert message(None) is None
    assert message(Fields("runtime.boundsError", ())) is None
