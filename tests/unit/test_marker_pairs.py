"""Markers that open and close calls: random crossings, losses and mixtures with functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.visitor import Visitor
from lbtrace.model import (
    CLOSE,
    LOSS,
    OPEN,
    Batch,
    Binary,
    Call,
    Fetch,
    Function,
    Plan,
    Probe,
    Site,
    Value,
)
from lbtrace.model.wire import EVENT
from lbtrace.values.integer import Integer

KEY = Value("id", Integer("long", 8, True), 0)
FETCHES = (Fetch(register="di"),)
BEGIN, END, NESTED, UNNESTED, ENTRY, RETURN, OPENED, SHUT, OPENED_ELSEWHERE = range(9)


def make_plan() -> Plan:
    """Three pairs of markers, of which the second nests without a stack and the third has a key
    and two places that begin it, and a function."""
    names = "x:begin", "x:end", "y:entry", "y:return", "f", "z:open", "z:shut"
    functions = tuple(Function(name, 8, 0, 8, parameters=(KEY,), typed=True) for name in names)
    probes = [
        Probe(Site(8, 8), role, number, "marker", FETCHES, pair=pair, key=key, nests=nests)
        for number, (role, pair, key, nests) in enumerate(
            (
                ("opens", "x", (), False),
                ("closes", "x", (), False),
                ("opens", "y", (KEY,), True),
                ("closes", "y", (KEY,), True),
            )
        )
    ]
    probes.append(Probe(Site(8, 8), "opens", 4))
    probes.append(Probe(Site(8, 8), "closes", 4))
    shop: Any = {"source": "marker", "fetches": FETCHES, "pair": "z", "key": (KEY,)}
    probes.append(Probe(Site(8, 8), "opens", 5, **shop))
    probes.append(Probe(Site(9, 9), "closes", 6, **shop))
    probes.append(Probe(Site(10, 10), "opens", 5, **shop))
    return Plan((Binary("./one"),), functions, tuple(probes))


class Seen(Visitor):
    """A visitor that notes what it sees, and that calls nest."""

    def __init__(self) -> None:
        self.open: list[Call] = []
        self.ended: list[Call] = []

    def entry(self, call: Call) -> None:
        assert call.depth == len(self.open)
        self.open.append(call)

    def exit(self, call: Call) -> None:
        assert self.open.pop() is call
        self.ended.append(call)

    def point(self, point: Call) -> None:
        assert point.depth == len(self.open)
        self.ended.append(point)


def match(*events: tuple[int, int, int]) -> list[tuple[Any, ...]]:
    """The name, value, end and duration of what is seen of events."""
    seen = watched(*events)
    return [(each.name, each.args[0].value, each.end, each.duration) for each in seen]


def watched(*events: tuple[int, int, int]) -> list[Call]:
    """What is seen of events, each a probe (-1: a loss), a stack pointer and a value."""
    records = [
        EVENT.pack(
            *(10 * (n + 1), pointer, 0, max(probe, 0), 7, 7),
            LOSS if probe < 0 else OPEN if probe % 2 == 0 else CLOSE,
            *(0, 0, 0, *((0, 1) if probe < 0 else (value, 0)), 0, 0, 0, 0),
        )
        for n, (probe, pointer, value) in enumerate(events)
    ]
    seen = Seen()
    matcher = CallMatcher(make_plan(), seen)
    matcher.feed(Batch(b"".join(records)))
    matcher.finish()
    assert not seen.open
    return seen.ended


def test_an_opening_at_the_same_place_of_the_stack_ends_the_former() -> None:
    assert match((BEGIN, 90, 1), (BEGIN, 90, 2), (END, 90, 0)) == [
        ("x:begin", 1, "open", None),
        ("x:begin", 2, "returned", 10),
    ]
    assert match((BEGIN, 90, 1), (BEGIN, 80, 2), (END, 80, 0), (END, 90, 0)) == [
        ("x:begin", 2, "returned", 10),
        ("x:begin", 1, "returned", 30),
    ]


def test_an_opening_of_another_key_elsewhere_in_the_frame_is_inside() -> None:
    inner = (OPENED_ELSEWHERE, 90, 11), (SHUT, 90, 11)
    assert match((OPENED, 90, 1), *inner, (SHUT, 90, 1)) == [
        ("z:open", 11, "returned", 10),
        ("z:open", 1, "returned", 30),
    ]
    ended = ("z:open", 1, "open", None)
    # The same key, a higher pointer, and a place that a loop has come back to.
    assert match((OPENED, 90, 1), (OPENED_ELSEWHERE, 90, 1))[0] == ended
    assert match((OPENED, 90, 1), (OPENED_ELSEWHERE, 91, 2), (SHUT, 91, 2))[0] == ended
    again = [(OPENED_ELSEWHERE if n % 2 else OPENED, 90, n) for n in range(8)]
    # Each first one of a round ends both of the round before: nothing piles up.
    assert [each[1] for each in match(*again)] == [1, 0, 3, 2, 5, 4, 7, 6]


def test_losses_hide_ends() -> None:
    assert match((BEGIN, 90, 1), (-1, 90, 0), (END, 90, 2)) == [
        ("x:begin", 1, "open", None),
        ("x:end", 2, "point", None),
    ]


def test_pairs_that_cross_functions_have_no_duration() -> None:
    crossing = (BEGIN, 90, 1), (ENTRY, 80, 2), (END, 70, 3), (RETURN, 80, 0), (BEGIN, 90, 4)
    assert match(*crossing) == [
        ("x:end", 3, "point", None),
        ("f", 2, "returned", 20),
        ("x:begin", 1, "open", None),
        ("x:begin", 4, "open", None),
    ]
    left = (ENTRY, 80, 2), (BEGIN, 70, 1), (RETURN, 80, 0), (END, 90, 3)
    assert match(*left) == [
        ("x:begin", 1, "open", None),
        ("f", 2, "returned", 20),
        ("x:end", 3, "point", None),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_any_events_nest_and_durations_are_those_of_their_key(seed: int) -> None:
    chosen = random.Random(seed)
    events = [
        (
            chosen.choice((0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5)),
            chosen.randrange(50, 60),
            chosen.randrange(3),
        )
        for _ in range(chosen.randrange(400))
    ]
    seen = match(*events)
    opened = sum(1 for probe, _, _ in events if probe in (BEGIN, NESTED, ENTRY))
    calls = [each for each in seen if each[2] != "point"]
    assert len(calls) == opened
    ends = {10 * (n + 1): (probe, value) for n, (probe, _, value) in enumerate(events)}
    for call in watched(*events):
        if call.duration is not None and call.name == "y:entry":
            assert ends[call.start + call.duration] == (UNNESTED, call.args[0].value)
        elif call.duration is not None and call.name == "x:begin":
            assert ends[call.start + call.duration][0] == END


def test_the_end_of_a_pair_says_of_which_call_it_is(render: Callable[..., str]) -> None:
    """All calls of a pair have one name."""
    hits = [(BEGIN, OPEN, 1), (ENTRY, OPEN, 0), (RETURN, CLOSE, 0), (END, CLOSE, 1)]
    events = [
        EVENT.pack(
            time,
            0x5000 - 64 * (probe in (ENTRY, RETURN)),
            0,
            probe,
            5,
            5,
            kind,
            0,
            0,
            0,
            key,
            0,
            0,
            0,
            0,
            0,
        )
        for time, (probe, kind, key) in enumerate(hits, 1)
    ]
    lines = render("tree", make_plan(), Batch(b"".join(events))).splitlines()
    assert [line[20:] for line in lines[1:]] == ["x:begin(id=1)", "│ f(id=0)", "└ x:begin(id=1)"]
