"""How single-stepped exits are counted in the events of a trace."""

from __future__ import annotations

import os

from lbtrace.model import CLOSE, OPEN, Batch, Plan, Probe, Site, Target
from lbtrace.model.wire import EVENT
from lbtrace.session.single_steps import STRIDE, SingleSteps

PLAN = Plan(
    (),
    (),
    (
        Probe(Site(0, 0, emulated=True), "opens", 0),
        Probe(Site(8, 8), "closes", 0),
        Probe(Site(16, 16, emulated=True), "opens", 1),
        Probe(Site(24, 24, emulated=True), "closes", 1),
    ),
)
"""The exits of one of two functions are single-stepped."""


def call(function: int) -> bytes:
    """The events of a call."""
    return b"".join(
        EVENT.pack(0, 0, 0, 2 * function + kind, 1, 1, (OPEN, CLOSE)[kind], *[0] * 9)
        for kind in (0, 1)
    )


def test_hits_are_counted_by_samples_across_batches() -> None:
    steps = SingleSteps(PLAN, Target(command=("true",)))
    calls = [*[call(0)] * 3, call(1)] * 10
    batches = [Batch(b"".join(calls[: 1 + n % 40])) for n in range(2000)]
    made = sum(batch.events.count(call(0)) for batch in batches)  # type: ignore[union-attr]
    assert [*steps.watch(iter(batches))] == batches
    assert abs(steps.hits - made) < made / 20 + STRIDE


def test_nothing_is_said_of_exits_that_are_emulated() -> None:
    steps = SingleSteps(PLAN, Target(command=("true",)))
    assert [*steps.watch(iter([Batch(call(1) * 1000)]))]
    assert steps.hits == 0
    assert steps.measure(os.getpid()) is None
