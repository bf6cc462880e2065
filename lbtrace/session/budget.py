"""How many calls a trace may still send, and what of the losses is among them.

Between the last one that is asked for and the end of detaching the ring may fill: what is lost then
was not asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.model import CLOSE, KIND, OPEN, POINT, UNWOUND, Batch, Losses, Plan
from lbtrace.model.wire import EVENT_SIZE, KIND_AT, decode_at, find_reports, first
from lbtrace.model.wire_limits import CHUNKS, LARGE_CHUNK
from lbtrace.probes import LANDINGS
from lbtrace.session.backlog import Backlog, Unprobed
from lbtrace.session.options import Options

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject

LARGEST = 256
"""Bytes that a record takes in the ring, at most, without the texts in it."""


class _EndedCalls:
    """Counts the calls that have ended, and the points. Of a lane it knows the frames of the open
    calls, as those end without an event that an exception leaves. Where no return is seen, it
    counts those that began."""

    def __init__(self, plan: Plan) -> None:
        self._open: dict[tuple[int, int, int], list[int]] = {}
        self.grow(plan)

    def grow(self, plan: Plan) -> None:
        ends = [probe for probe in plan.probes if probe.role in ("closes", "tail")]
        seen = {probe.function for probe in ends}
        self._shown = {
            number
            for number, probe in enumerate(plan.probes)
            if probe.role == "point" or (probe.role == "opens" and probe.function not in seen)
        }
        self._skipped = {
            number
            for number, probe in enumerate(plan.probes)
            if probe.goes_on or probe.role not in ("opens", "closes", "tail", "tail return")
        }
        self._landings = {n for n, p in enumerate(plan.probes) if p.role in LANDINGS}
        self._parts = {n for n, p in enumerate(plan.probes) if p.role == "more values"}

    def count(self, batch: Batch, most: int) -> tuple[int, int]:
        """Return how many calls end in a batch, ``most`` at most, and how many records there are
        until then."""
        found, events = 0, memoryview(batch.events)
        numbers, words = events.cast("I"), events.cast("Q")
        size = EVENT_SIZE // 4
        probes = numbers[6::size].tolist()
        pids, tids = numbers[7::size].tolist(), numbers[8::size].tolist()
        frames = words[1 :: EVENT_SIZE // 8].tolist()
        lanes, kinds = words[2 :: EVENT_SIZE // 8].tolist(), events[KIND_AT::EVENT_SIZE].tolist()
        for number, (probe, kind) in enumerate(zip(probes, kinds, strict=True)):
            if found >= most and probe not in self._parts:
                return found, number
            if kind & KIND not in (OPEN, CLOSE, POINT, UNWOUND):
                continue
            lands = kind & KIND == UNWOUND or probe in self._landings
            if probe in self._shown and not lands:
                found += 1
            elif lands or probe not in self._skipped:
                key = pids[number], lanes[number], 0 if lanes[number] else tids[number]
                calls, frame = self._open.setdefault(key, []), frames[number]
                while calls and (calls[-1] < frame or (lands and calls[-1] == frame)):
                    calls.pop()
                    found += 1
                if kind & KIND == OPEN:
                    calls.append(frame)
                elif calls and not lands:
                    calls.pop()
                    found += 1
        return found, len(probes)


class Budget:
    """Takes batches from ``backlog`` until as many calls of ``plan`` have ended in them as
    ``options`` say.

    ``losses`` are those of what was taken, once it is spent.
    """

    def __init__(self, options: Options, plan: Plan, backlog: Backlog, traced: TraceObject) -> None:
        self._left = options.max_events
        self._ended = _EndedCalls(plan)
        self._room = options.ring_size
        self._backlog = backlog
        self._object = traced
        self._lost = [0, 0, 0, 0]
        self.losses: Losses | None = None

    @property
    def spent(self) -> bool:
        """Whether all has been taken."""
        return self._left is not None and self._left <= 0

    def grow(self, plan: Plan) -> None:
        """The plan has grown by probes."""
        self._ended.grow(plan)

    def take(self) -> Batch:
        """Return the batch that waits longest, cut where the budget ends."""
        batch = self._backlog.next()
        if self._left is None or isinstance(batch, Unprobed):
            return batch
        ended, records = self._ended.count(batch, self._left)
        self._left -= ended
        taken = first(batch, records) if self.spent else batch
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
