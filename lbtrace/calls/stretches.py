"""Matches stretches of plain events natively: entries below the innermost call, and its returns.

Most events are such. `StretchMatcher` gives a sink the rows of a stretch at once; what is
not plain (calls that were left, losses, new threads, landings) it matches event by event. Between
stretches all state is that of `CallMatcher`, so either may continue where the other stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from lbtrace.calls._stretches import ffi, lib
from lbtrace.calls.call_stack import NEVER, Stack
from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.calls.visitor import Visitor
from lbtrace.model import THREAD_POINTER, Argument, Batch, Call, Datum, Plan, wire
from lbtrace.model.wire import EVENT_SIZE

FEWEST = 256
"""Events of a batch for which stretches pay."""

WORTHWHILE = 16
"""Events of a stretch that is worth its preparation."""

AFTER_STRETCH, LONGEST = 16, 2048
"""Events that are matched one by one where a stretch has ended, at first and at most: each
stretch that was too short doubles them."""


class Lane:
    """A lane in a stretch: its stack, the calls of it that were open ``before``, the first of
    which has the number ``base`` among those of the stretch, and what native code knows of it."""

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


class Stretch:
    """Rows of events in a row that are plain: see lbtrace/native/pairing.h, whose struct
    ``native`` is. ``blob_size`` bytes of ``blobs`` accompany its ``count`` ``events``."""

    def __init__(self, events: memoryview, blobs: memoryview, max_depth: int, native: Any) -> None:
        self.events = events
        self.blobs = blobs
        self.native = native
        self.max_depth = max_depth
        self.count = 0
        self.lanes: list[Lane] = []

    @property
    def blob_size(self) -> int:
        """How many of the ``blobs`` accompany the events."""
        return int(self.native.blob)

    def probes(self) -> list[int]:
        """Return the probe of each row."""
        return self.events.cast("I")[6 :: EVENT_SIZE // 4][: self.count].tolist()

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


class StretchVisitor(Visitor, Protocol):
    """A visitor that takes the rows of stretches as well, with ``takes_tails`` also where calls end
    by a jump to another function."""

    takes_tails: ClassVar[bool]

    def takes(self, stretch: Stretch) -> bool:
        """Return whether it shows a stretch; else it gets the calls one by one."""

    def stretch(self, stretch: Stretch) -> None:
        """Show the rows. The stacks of its lanes already have the calls that are open after it."""


class StretchMatcher(CallMatcher):
    """A `CallMatcher` that drives a `StretchVisitor`."""

    _visitor: StretchVisitor

    def __init__(
        self, plan: Plan, visitor: StretchVisitor, *, max_depth: int | None = None
    ) -> None:
        super().__init__(plan, visitor, max_depth=max_depth)
        self._one_by_one = AFTER_STRETCH
        self._learn(plan)

    def grow(self, plan: Plan) -> None:
        """See `CallMatcher.grow`."""
        super().grow(plan)
        self._learn(plan)

    def _learn(self, plan: Plan) -> None:
        """Let native code know what the probes of a plan mean."""
        pairs = ProbePairs(plan)
        tails = self._visitor.takes_tails
        meanings = [_meaning(pairs, number, tails=tails) for number in range(len(plan.probes))]
        self._meanings = ffi.new("struct lbt_pair_probe[]", meanings)
        shown = min(self._max_depth, (1 << 32) - 1)
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
        # A copy, because native code changes events, and wants them aligned.
        events, blobs = memoryview(bytearray(batch.events)), memoryview(batch.blobs)
        while events:
            stretch = self._pair(events, blobs, threads[0].time if threads else LATEST)
            if stretch.count >= WORTHWHILE and self._visitor.takes(stretch):
                self._settle(stretch)
                self._visitor.stretch(stretch)
                events = events[stretch.count * EVENT_SIZE :]
                blobs = blobs[stretch.blob_size :]
                if stretch.count > 4 * self._one_by_one:
                    self._one_by_one = AFTER_STRETCH
            else:
                self._one_by_one = min(2 * self._one_by_one, LONGEST)
            if events:
                size = self._one_by_one * EVENT_SIZE
                used = self._match(events[:size], blobs, threads)
                events, blobs = events[size:], blobs[used:]

    def _pair(self, events: memoryview, blobs: memoryview, end: int) -> Stretch:
        """The stretch with which ``events`` begin, before the time ``end``."""
        pairing, count = self._pairing, len(events) // EVENT_SIZE
        stretch = Stretch(events, blobs, self._max_depth, pairing)
        if lib.lbt_pairing_begin(pairing, ffi.from_buffer(events), count):
            raise MemoryError
        reached = ffi.new("size_t *")
        while lib.lbt_pair(pairing, reached, end) == lib.LBT_LANE_UNKNOWN:
            if not self._add_lane(stretch, reached[0], count):
                break
        stretch.count = reached[0]
        for number, lane in enumerate(stretch.lanes):
            lane.native = pairing.lanes + number
        return stretch

    def _add_lane(self, stretch: Stretch, row: int, count: int) -> bool:
        """Make the lane of a row known; false where it needs a closer look."""
        event = wire.decode_at(stretch.events, row)
        if event.kind & THREAD_POINTER:
            event.goroutine = 0
        if self._unseen and self._unseen.has(event.pid):
            return False
        stack = self._stacks.get(self._key(event))
        frames = self._lanes.own_stack(event)
        if stack is None or stack.pid != event.pid or not (stack.is_plain and frames):
            return False
        last = stack.last_return_frame
        calls = stack.calls[row - count :]  # no more can end
        if NEVER < last < 0 or (calls and calls[-1].frame < 0):  # on a stack for signals
            return False
        native = lib.lbt_pairing_lane(
            *(self._pairing, event.pid, event.tid, event.goroutine),
            [(call.frame, call.start, call.probe, call.tid) for call in calls],
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
        base = stretch.lanes[-1].base + len(stretch.lanes[-1].before) if stretch.lanes else 0
        stretch.lanes.append(Lane(stack, calls, base))
        return True

    def _settle(self, stretch: Stretch) -> None:
        """Bring the stacks to where the stretch ends."""
        self.calls += self._pairing.entries
        for lane in stretch.lanes:
            stack, native = lane.stack, lane.native
            del stack.calls[native.below + native.kept :]
            for number in range(native.kept, native.count):
                row = native.calls[number].call
                event = wire.decode_at(stretch.events, row)
                stack.open(self._probes[event.probe].begin(event, stretch.blob(row)))
            stack.last_return_frame = native.last_return if native.returned else NEVER
            stack.uretprobe_count = native.hooked


def _meaning(pairs: ProbePairs, number: int, *, tails: bool) -> tuple[int, int, bool]:
    """A ``struct lbt_pair_probe``."""
    entry, role = pairs.entry_of(number), lib.LBT_ROLE_OTHER
    if pairs.has_frames(number):
        if pairs.opens(number):
            role = lib.LBT_ROLE_OPENS
        elif pairs.returns(number) and pairs.opens(entry):
            role = lib.LBT_ROLE_CLOSES
        elif tails and pairs.jumps(number) and pairs.opens(entry) and not pairs.is_hooked(entry):
            role = lib.LBT_ROLE_TAIL
    return max(entry, 0), role, pairs.is_hooked(number)
