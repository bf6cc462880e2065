"""What waits when the user ends a trace in a hurry is written for a moment, or counted."""

from __future__ import annotations

from typing import Any

import pytest

from lbtrace.model import Batch
from lbtrace.model.wire import EVENT_SIZE, losses
from lbtrace.session import backlog
from lbtrace.session.backlog import BATCH_EVENTS, Backlog


class Ring:
    """A reader, and the object whose ring it reads, which holds ``batches`` full batches and a
    short one."""

    def __init__(self, batches: int) -> None:
        self.sizes = [*[BATCH_EVENTS] * batches, 7]

    def drain(self, most: int) -> Batch | None:
        if not self.sizes:
            return None
        size = self.sizes.pop(0)
        if size > most:
            self.sizes.insert(0, size - most)
        return Batch(bytes(min(size, most) * EVENT_SIZE))

    def missed(self) -> int:
        return 0


def waiting(batches: int) -> Backlog:
    ring: Any = Ring(batches)
    return Backlog(ring, ring)


def test_all_that_waits_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MOST_EVENTS", 3 * BATCH_EVENTS)
    held = waiting(10)
    held.collect()
    held.end()
    taken = held.next()
    held.discard()
    assert not held
    assert held.discarded + len(taken.events) // EVENT_SIZE == 10 * BATCH_EVENTS + 7


def test_reports_of_losses_are_no_events() -> None:
    """What they report is counted already."""
    held = waiting(0)
    held.waiting.append(Batch(losses(1, 2, 2, 0, (0, 5, 5, 0))))
    held.discard()
    assert held.discarded == 7


def test_only_a_hurry_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "HURRY", -1.0)
    held = waiting(1)
    assert not held.is_late()
    held.hurried = True
    assert held.is_late()
