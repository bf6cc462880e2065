"""Batches that were read from the ring and wait to be taken."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from lbtrace.model import Batch
from lbtrace.model.wire import EVENT_SIZE, count_events, cut_after, losses, unprobed

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject
    from lbtrace.bpf.ring import RingReader

FEWEST_EVENTS, BATCH_EVENTS = 512, 4096
"""How many a batch has: as many as are written in `BATCH_SECONDS`, so that the ring is read again
before it fills."""

BATCH_SECONDS = 0.01

MOST_EVENTS = 640 * BATCH_EVENTS
"""Bound of what waits in memory while a slow sink writes, 240 MB; then the ring fills."""

HURRY = 0.1
"""Seconds in which what waits is still taken when the trace has ended in a hurry."""


class Unprobed(Batch):
    """A batch that says when returns may not be seen, and holds no event of a probe."""


class Backlog:
    """What ``reader`` reads of the ring of ``traced``, in order; true while anything waits.

    ``waiting`` are the batches. ``hurried`` says that the user does not wait long for the end,
    ``discarded`` is how many events were dropped therefore.
    """

    def __init__(self, traced: TraceObject, reader: RingReader) -> None:
        self._object = traced
        self._reader = reader
        self.waiting: deque[Batch] = deque()
        self.hurried = False
        self.discarded = 0
        self._held = 0
        self._each = FEWEST_EVENTS
        self._taken = 0, 0.0
        self._latest = 0.0
        self._missed = 0
        self._watched = 0
        self._ended = 0

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def next(self) -> Batch:
        """Take the batch that waits longest."""
        batch, now, (before, then) = self.waiting.popleft(), time.monotonic(), self._taken
        count = len(batch.events) // EVENT_SIZE
        self._held -= count
        if before >= FEWEST_EVENTS:
            each = before * BATCH_SECONDS / max(now - then, 1e-6)
            self._each = int(min(max(each, FEWEST_EVENTS), BATCH_EVENTS))
        self._taken = count if self.waiting else 0, now  # otherwise the next one has to come first
        return batch

    def collect(self) -> None:
        """Move what the ring holds here, within the bound.

        A short batch says that the ring is empty. To ask again at once would
        take events one by one as they come, at the traced program's expense.
        """
        fresh: list[Batch] = []
        while self._held < MOST_EVENTS and (batch := self._reader.drain(self._each)):
            fresh.append(cut_after(batch, self._ended) if self._ended else batch)
            self._held += len(fresh[-1].events) // EVENT_SIZE
            if len(batch.events) < self._each * EVENT_SIZE:
                break
        if missed := self._newly_missed():
            self._held += len(missed.events) // EVENT_SIZE
            self.waiting.append(missed)
        self.waiting.extend(fresh)

    def is_late(self) -> bool:
        """Whether nobody waits any longer for what waits here. To be asked once the trace has
        ended."""
        if not self.hurried:
            return False
        self._latest = self._latest or time.monotonic() + HURRY
        return time.monotonic() > self._latest

    def discard(self) -> None:
        """Drop all that waits, also in the ring."""
        self.collect()
        while self.waiting:
            self.discarded += sum(map(count_events, self.waiting))
            self.waiting.clear()
            self._held = 0
            self.collect()

    def end(self) -> None:
        """Collect nothing that happens from now on: probes are detached one after the other, and
        without all of them a return may seem to be that of another call."""
        self._ended = time.monotonic_ns()

    def unreported_losses(self) -> Batch:
        """Return the losses that no later event of their threads reported."""
        now = time.monotonic_ns()
        return Batch(b"".join(losses(now, *loss) for loss in self._object.pending_losses()))

    def _newly_missed(self) -> Batch | None:
        """A batch that says that the kernel skipped hits of probes since the last call."""
        now, missed = time.monotonic_ns(), self._object.missed()
        since, self._watched = self._watched, now
        if missed <= self._missed:
            return None
        self._missed = missed
        return Unprobed(unprobed(since, now))
