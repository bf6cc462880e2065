"""Removes the events that cannot be read from the batches of a damaged capture: of probes that
cannot be, of kinds that nothing sends, and of another kind than their probe's role has.

Such an event may have ended a call. So from the first one on an event of kind `UNPROBED` says that
returns may not be seen: what no return ends then ends open, not unwound. In the place of one whose
kind cannot be read an event of kind `LOSS` says that its thread or goroutine lost one.
"""

from __future__ import annotations

from itertools import starmap

from lbtrace.model import KIND, LOSS, OPEN, Batch, Event, Plan, wire
from lbtrace.model.wire import EVENT
from lbtrace.model.wire_limits import CALLERS
from lbtrace.probes import kind_of_events

EITHER = (1, 1, 0, 0)
"""What a lane has lost, by kind, where it is not known which: an open and something else."""


class KnownEvents:
    """Those that a ``plan`` explains. ``lost`` counts those removed."""

    def __init__(self, plan: Plan) -> None:
        self.lost = 0
        self._kinds = [*map(kind_of_events, plan.probes)]
        self._pairs = any(probe.pair for probe in plan.probes)
        self._unprobed = False

    def of(self, batch: Batch) -> Batch:
        """Return a batch, which follows those before, without unknown events."""
        events = list(starmap(Event, EVENT.iter_unpack(batch.events)))
        known = [self._is_known(event) for event in events]
        if all(known):
            return batch
        kept: list[bytes | memoryview] = []
        blobs: list[bytes | memoryview] = []
        position = 0
        for number, event in enumerate(events):
            if not (self._unprobed or known[number] or self._is_harmless(event)):
                # Not since the event's time: calls that were kept come later and began earlier.
                kept.append(wire.unprobed(0))
                self._unprobed = True
            if known[number]:
                kept.append(batch.events[number * EVENT.size : (number + 1) * EVENT.size])
                blobs.append(batch.blobs[position : position + event.blob])
            elif event.probe < len(self._kinds):
                lost = wire.losses(event.time, event.pid, event.tid, event.lane, EITHER)
                kept.append(lost)
            position += event.blob
        self.lost += known.count(False)
        return Batch(b"".join(kept), b"".join(blobs), batch.threads)

    def _is_known(self, event: Event) -> bool:
        kind, probe = event.kind & KIND, event.probe
        if probe >= len(self._kinds):
            return False
        if LOSS <= kind <= CALLERS:
            return True
        return kind == self._kinds[probe]

    def _is_harmless(self, event: Event) -> bool:
        """Whether an event that is left out has ended no call, nor decides which one another
        ends: it opened one, of a probe that does so or that is not known."""
        probe = event.probe
        opens = probe >= len(self._kinds) or self._kinds[probe] == OPEN
        return event.kind & KIND == OPEN and opens and not self._pairs
