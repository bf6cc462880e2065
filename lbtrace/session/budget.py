"""How many events a trace may still send, and what of the losses is among them.

Between the last one that is asked for and the end of detaching the ring may fill: what is lost then
was not asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.model import CLOSE, OPEN, POINT, Batch, Losses
from lbtrace.model.wire import EVENT_SIZE, count_limited, cut, decode_at, find_reports
from lbtrace.model.wire_limits import CHUNKS, LARGE_CHUNK
from lbtrace.session.backlog import Backlog, Unprobed

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject

LARGEST = 256
"""Bytes that a record takes in the ring, at most, without the texts in it."""


class Budget:
    """Takes batches from ``backlog`` until they hold so many ``records``; None is no bound. They
    come through a ring of ``ring_size`` bytes.

    ``losses`` are those of what was taken, once it is spent.
    """

    def __init__(
        self, records: int | None, backlog: Backlog, traced: TraceObject, ring_size: int
    ) -> None:
        self._left = records
        self._room = ring_size
        self._backlog = backlog
        self._object = traced
        self._lost = [0, 0, 0, 0]
        self.losses: Losses | None = None

    @property
    def spent(self) -> bool:
        """Whether all has been taken."""
        return self._left is not None and self._left <= 0

    def take(self) -> Batch:
        """Return the batch that waits longest, cut where the budget ends."""
        batch = self._backlog.next()
        if self._left is None or isinstance(batch, Unprobed):
            return batch
        taken = cut(batch, self._left)
        self._left -= count_limited(taken)
        each = LARGEST + (LARGE_CHUNK * CHUNKS if taken.blobs else 0)
        self._room -= len(taken.events) // EVENT_SIZE * each
        for _, lost in find_reports(taken):
            self._add(lost)
        if self.spent:
            self._settle(batch, taken)
        return taken

    def _settle(self, batch: Batch, taken: Batch) -> None:
        """Count what is lost. Of what another thread than that of the last event reports later, it
        is not known whether it came before that: it counts, but where all that was taken cannot
        have filled the ring."""
        last = decode_at(taken.events, len(taken.events) // EVENT_SIZE - 1)
        end = last.pid, last.tid, last.lane
        pending = self._object.pending_losses()
        losses = self._object.losses()
        self._backlog.collect()
        rest = Batch(batch.events[len(taken.events) :])
        for waiting in (rest, *self._backlog.waiting):
            pending += ((*lane, lost) for lane, lost in find_reports(waiting))
        for *lane, lost in pending:
            if tuple(lane) != end and self._room <= 0:
                self._add(lost)
        self.losses = replace(
            losses,
            ring_full_entry=self._lost[OPEN],
            ring_full_return=self._lost[CLOSE],
            ring_full_point=self._lost[POINT] + self._lost[0],
        )

    def _add(self, lost: tuple[int, ...]) -> None:
        self._lost = [sum(each) for each in zip(self._lost, lost, strict=True)]
