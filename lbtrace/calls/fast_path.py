"""Matches fast batches of plain events natively: entries below the innermost call, and its returns.

Most events are such. `FastMatcher` gives a sink the rows of a fast batch at once; what is
not plain (calls that were left, losses, new threads, landings) it matches event by event. Between
fast batches all state is that of `CallMatcher`, so either may continue where the other stopped.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, Literal, Protocol

from lbtrace.calls._fast_path import ffi, lib
from lbtrace.calls.call_stack import NEVER, Stack
from lbtrace.calls.decoders import is_fetched
from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.calls.visitor import Visitor
from lbtrace.model import Argument, Batch, Call, Datum, Event, Plan, Probe, wire
from lbtrace.model.wire import EVENT_SIZE

FEWEST = 256
"""Events of a batch for which fast batches pay."""

WORTHWHILE = 16
"""Events of a fast batch that is worth its preparation."""

PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Names that all formats write as they are."""

AFTER_FAST_BATCH, LONGEST = 16, 2048
"""Events that are matched one by one where a fast batch has ended, at first and at most: each
fast batch that was too short doubles them."""


class Lane:
    """A lane in a fast batch: its stack, the calls of it that were open ``before``, the first of
    which has the number ``base`` among those of the fast batch, and what native code knows of
    it."""

    __slots__ = ("base", "before", "native", "stack")

    native: Any

    def __init__(self, stack: Stack, before: Sequence[Call], base: int) -> None:
        self.stack = stack
        self.before = before
        self.base = base

    @property
    def key(self) -> tuple[int, int]:
        """The process, and the goroutine or else the thread."""
        return self.native.pid, self.native.goroutine or self.native.tid

    @property
    def goroutine(self) -> int:
        """The goroutine, 0 for a thread."""
        return int(self.native.goroutine)

    @property
    def first(self) -> int | None:
        """Its first row that is shown."""
        first = int(self.native.first)
        return None if first == NO_CALL else first

    @property
    def entries(self) -> int | None:
        """The first of the entries that its last rows are; None where the last row that is
        shown is a return."""
        return int(self.native.since) if self.native.state == lib.LBT_AFTER_ENTRY else None


LATEST = (1 << 64) - 1
"""No event is later."""

NO_CALL = 0x7FFF_FFFF
"""LBT_NO_CALL."""

_SHOWN = bytes(state != lib.LBT_HIDDEN for state in range(256))


class FastBatch:
    """Rows of events in a row that are plain: see lbtrace/native/pairing.h, whose struct
    ``native`` is. Each of its ``count`` rows has an event, in ``events``. They are made of ``used``
    events that came, which ``blob_size`` bytes of ``blobs`` accompany."""

    def __init__(self, blobs: memoryview, max_depth: int, native: Any) -> None:
        self.events = memoryview(b"")
        self.blobs = blobs
        self.native = native
        self.max_depth = max_depth
        self.count = self.used = 0
        self.lanes: list[Lane] = []

    @property
    def blob_size(self) -> int:
        """How many of the ``blobs`` accompany the events that are used."""
        return int(self.native.blob)

    def probes(self) -> list[int]:
        """Return the probe of each row."""
        return self._words(6, "I")

    def pids(self) -> list[int]:
        """Return the process of each row."""
        return self._words(7, "I")

    def shown(self) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
        """Yield of each row that is shown its time, its probe, and its process, its thread and its
        goroutine, 0 for none."""
        shown = bytes(ffi.buffer(self.native.states, self.count)).translate(_SHOWN)
        lanes = zip(self.pids(), self._words(8, "I"), self._words(2, "Q"), strict=True)
        return compress(zip(self._words(0, "Q"), self.probes(), lanes, strict=True), shown)

    def _words(self, first: int, form: Literal["I", "Q"]) -> list[int]:
        """The number of each row that has so many others of its ``form`` before it."""
        words = self.events.cast(form)
        return words[first :: EVENT_SIZE // words.itemsize].tolist()

    def probe(self, row: int) -> int:
        """Return the probe of a row."""
        return wire.decode_at(self.events, row).probe

    def values(self, row: int) -> bytes:
        """Return all that the values of a row are decoded from."""
        start = row * EVENT_SIZE
        faults = self.events[start + 38 : start + 40]
        return b"".join((faults, self.events[start + 48 : start + EVENT_SIZE], self.blob(row)))

    def blob(self, row: int) -> memoryview:
        """Return the bytes that accompany a row."""
        start = self.native.blobs[row]
        size = int.from_bytes(self.events[row * EVENT_SIZE + 44 :][:4], "little")
        return self.blobs[start : start + size]

    def arguments(self, decoder: ProbeDecoder, row: int) -> Sequence[Argument]:
        """Return the arguments of the call that a row opens."""
        return decoder.arguments(wire.decode_at(self.events, row), self.blob(row))

    def result(self, decoder: ProbeDecoder, row: int) -> Datum:
        """Return the result of the call that a row closes."""
        return decoder.result(wire.decode_at(self.events, row), self.blob(row))

    def continues(self, lane: Lane, *, entry: bool) -> None:
        """Say whether the row before the first one of a lane was an ``entry``, which has no line
        yet."""
        if lane.first is not None:
            self.native.states[lane.first] = lib.LBT_AFTER_ENTRY if entry else lib.LBT_AFTER_RETURN

    def last_shown(self, lane: Lane) -> Call:
        """Return the innermost open call of a lane that is shown."""
        calls = lane.stack.calls
        return calls[min(len(calls), self.max_depth) - 1]


class FastVisitor(Visitor, Protocol):
    """A visitor that takes the rows of fast batches as well."""

    def takes(self, fast_batch: FastBatch) -> bool:
        """Return whether it shows a fast batch; else it gets the calls one by one."""

    def fast_batch(self, fast_batch: FastBatch) -> None:
        """Show the rows. The stacks of its lanes already have the calls that are open after it."""


class FastMatcher(CallMatcher):
    """A `CallMatcher` that drives a `FastVisitor`, which gets calls without the callers that were
    sent with them."""

    def __init__(self, plan: Plan, visitor: FastVisitor, *, max_depth: int | None = None) -> None:
        super().__init__(plan, visitor, max_depth=max_depth)
        self._fast_visitor = visitor
        self._one_by_one = AFTER_FAST_BATCH
        self._learn(plan)

    def grow(self, plan: Plan) -> None:
        """See `CallMatcher.grow`."""
        super().grow(plan)
        self._learn(plan)

    def _learn(self, plan: Plan) -> None:
        """Let native code know what the probes of a plan mean."""
        pairs = ProbePairs(plan)
        meanings = [_meaning(plan, pairs, number) for number in range(len(plan.probes))]
        self._jumps = any(probe.goes_on for probe in plan.probes)
        self._meanings = ffi.new("struct lbt_pair_probe[]", meanings)
        shown = min(self._ends.max_depth, (1 << 32) - 1)
        self._pairing = ffi.gc(
            lib.lbt_pairing_new(self._meanings, len(meanings), shown),
            lib.lbt_pairing_free,
        )

    def feed(self, batch: Batch) -> None:
        """See `CallMatcher.feed`."""
        if len(batch.events) < FEWEST * EVENT_SIZE:
            super().feed(batch)
            return
        threads = deque(sorted(batch.threads, key=lambda thread: thread.time))
        events, blobs = memoryview(batch.events), memoryview(batch.blobs)
        while events:
            fast_batch = self._pair(events, blobs, threads[0].time if threads else LATEST)
            if fast_batch.used >= WORTHWHILE and self._fast_visitor.takes(fast_batch):
                self._settle(fast_batch)
                self._fast_visitor.fast_batch(fast_batch)
                events = events[fast_batch.used * EVENT_SIZE :]
                blobs = blobs[fast_batch.blob_size :]
                if fast_batch.used > 4 * self._one_by_one:
                    self._one_by_one = AFTER_FAST_BATCH
            else:
                self._one_by_one = min(2 * self._one_by_one, LONGEST)
            if events:
                size = self._one_by_one * EVENT_SIZE
                used = self._match(events[:size], blobs, threads)
                events, blobs = events[size:], blobs[used:]

    def _pair(self, events: memoryview, blobs: memoryview, end: int) -> FastBatch:
        """The fast batch with which ``events`` begin, before the time ``end``."""
        pairing, count = self._pairing, len(events) // EVENT_SIZE
        fast_batch = FastBatch(blobs, self._ends.max_depth, pairing)
        if lib.lbt_pairing_begin(pairing, ffi.from_buffer(events), count):
            raise MemoryError
        reached = ffi.new("size_t *")
        while lib.lbt_pair(pairing, reached, end) == lib.LBT_LANE_UNKNOWN:
            event = wire.decode_at(events, reached[0])
            if not self._add_lane(fast_batch, event, count - reached[0]):
                break
        fast_batch.used, fast_batch.count = reached[0], int(pairing.rows)
        fast_batch.events = memoryview(ffi.buffer(pairing.events, fast_batch.count * EVENT_SIZE))
        for number, lane in enumerate(fast_batch.lanes):
            lane.native = pairing.lanes + number
        return fast_batch

    def _add_lane(self, fast_batch: FastBatch, event: Event, count: int) -> bool:
        """Make the lane of an event known, the first of ``count``; false where it needs a closer
        look."""
        if self._ends.unseen:
            return False
        stack = self._threads.stacks.get(self._threads.key(event))
        frames = self._threads.lanes.own_stack(event)
        if stack is None or stack.pid != event.pid or not (stack.is_plain and frames):
            return False
        if stack.jumped and stack.lost.at > NEVER and stack.calls[0].start < stack.lost.at:
            return False
        last = stack.last_return_frame
        jumped = stack.jumped
        calls = stack.calls[-count - len(jumped) - 1 :]  # no more can end
        if NEVER < last < 0 or (calls and calls[-1].frame < 0):  # on a stack for signals
            return False
        native = lib.lbt_pairing_lane(
            *(self._pairing, event.pid, event.tid, event.lane),
            [(c.frame, c.start, c.probe, c.tid, jumped.get(c.depth, -1) + 1) for c in calls],
            len(calls),
        )
        if not native:
            raise MemoryError
        native.lowest, native.highest = frames
        native.below = len(stack.calls) - len(calls)
        native.hooked = stack.uretprobe_count
        native.returned = last != NEVER
        native.last_return = max(last, 0)
        native.lost_before = max(stack.lost.unsure_before, 0)
        base = (
            fast_batch.lanes[-1].base + len(fast_batch.lanes[-1].before) if fast_batch.lanes else 0
        )
        fast_batch.lanes.append(Lane(stack, calls, base))
        return True

    def _settle(self, fast_batch: FastBatch) -> None:
        """Bring the stacks to where the fast batch ends."""
        self._ends.calls += self._pairing.entries
        for lane in fast_batch.lanes:
            stack, native = lane.stack, lane.native
            del stack.calls[native.below + native.kept :]
            for depth in [depth for depth in stack.jumped if depth >= native.below]:
                del stack.jumped[depth]
            for number in range(native.kept, native.count):
                row = native.calls[number].call
                event = wire.decode_at(fast_batch.events, row)
                stack.open(self._probes[event.probe].begin(event, fast_batch.blob(row)))
            for number in range(native.count if self._jumps else 0):
                if jumped := native.calls[number].jumped:
                    stack.jumped[native.below + number] = jumped - 1
            stack.last_return_frame = native.last_return if native.returned else NEVER
            stack.uretprobe_count = native.hooked


def _meaning(plan: Plan, pairs: ProbePairs, number: int) -> tuple[int, int, bool, int]:
    """A ``struct lbt_pair_probe``."""
    entry, role, probe = pairs.entry_of(number), lib.LBT_ROLE_OTHER, plan.probes[number]
    if pairs.has_frames(number):
        if pairs.opens(number):
            role = lib.LBT_ROLE_OPENS
        elif probe.role == "tail return":
            role = lib.LBT_ROLE_RELAY
        elif pairs.returns(number) and pairs.opens(entry):
            role = lib.LBT_ROLE_CLOSES
        elif pairs.jumps(number) and pairs.opens(entry) and not pairs.is_hooked(entry):
            role = _meaning_of_jump(plan, probe)
    return max(entry, 0), role, pairs.is_hooked(number), probe.relay


def _meaning_of_jump(plan: Plan, probe: Probe) -> int:
    if probe.goes_on:
        known = is_fetched(plan.functions[probe.function].result, probe.fetches)
        return int(lib.LBT_ROLE_GOES_ON if known else lib.LBT_ROLE_OTHER)
    return int(lib.LBT_ROLE_TAIL if PLAIN.fullmatch(probe.leads_to) else lib.LBT_ROLE_OTHER)
