"""Removes the events of probes that cannot be read from the batches of a damaged capture.

Such an event may have ended a call. So from the first one on an event of kind `UNWATCHED` says that
returns may not be seen: what no return ends then ends open, not unwound.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import starmap

from lbtrace.model import KIND, OPEN, POINT, Batch, Event, Plan, wire
from lbtrace.model.wire import EVENT


class KnownEvents:
    """Those that a ``plan`` explains, but for its probes that are ``unknown``. Where the plan is
    ``doubtful``, any event may be that of another probe. ``lost`` counts those removed."""

    def __init__(self, plan: Plan, unknown: Collection[int], *, doubtful: bool) -> None:
        self.lost = 0
        self._unknown = unknown
        self._count = len(plan.probes)
        self._pairs = any(probe.pair for probe in plan.probes)
        self._doubtful = doubtful
        self._unwatched = False

    def of(self, batch: Batch) -> Batch:
        """Return a batch, which follows those before, without unknown events."""
        unknown, count = self._unknown, self._count
        events = list(starmap(Event, EVENT.iter_unpack(batch.events)))
        known = [
            e.probe < count and not (e.probe in unknown and e.kind & KIND <= POINT) for e in events
        ]
        if all(known) and (self._unwatched or not self._doubtful):
            return batch
        kept: list[bytes | memoryview] = []
        blobs: list[bytes | memoryview] = []
        position = 0
        for number, event in enumerate(events):
            if not self._unwatched and (
                self._doubtful or not (known[number] or self._is_harmless(event))
            ):
                # Not since the event's time: calls that were kept come later and began earlier.
                kept.append(wire.unwatched(0))
                self._unwatched = True
            if known[number]:
                kept.append(batch.events[number * EVENT.size : (number + 1) * EVENT.size])
                blobs.append(batch.blobs[position : position + event.blob])
            position += event.blob
        self.lost += known.count(False)
        return Batch(b"".join(kept), b"".join(blobs), batch.threads)

    def _is_harmless(self, event: Event) -> bool:
        """Whether an event that is left out has ended no call, nor decides which one another
        ends."""
        return event.kind & KIND == OPEN and not self._pairs
