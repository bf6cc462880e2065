"""Events to calls: entries and returns matched per thread, by frame.

A frame is the stack pointer at a function's entry. Stacks grow down, so a nested call has a lower
frame than its caller; a function reached by a tail call has the same one. From this follows which
calls have ended:

* A return ends the innermost open call of its function and frame. Calls inside it that did not
  return were left by an exception, longjmp or the like: they are *unwound*.
* An entry ends the calls whose frames lie below its own. A call with the same frame stays open,
  because the new one may be a tail call, whose return the kernel delivers right after the
  other's. It ends if it is of the same function (unless that may have jumped to one that jumped
  back), or if a call of that frame returned before this entry.
* Where a function continues after an exception, or setjmp returns, a probe reports the frame of
  calls made from there: calls of that frame and below have ended.
* Where the thread (or goroutine) lost events after a call began, its return may be among them;
  such a call ends *open*, not unwound. Where entries and returns were lost, a return may be that
  of a later call, and ends the earlier one *open*.
* A jump back to a function's first instruction hits its entry probe again, within the same call.
  The kernel hooks each hit with a uretprobe, unless a session refuses that, and delivers as many
  returns, one right after the other: the first one counts.
* Where a return may not have been seen, the call ends *open* as well: from when probes begin to
  be detached, or when a probe missed hits of an unknown thread.
* Where switches of stacks may not be seen, what seems to be left may wait on another stack, and
  ends *open*: see `lbtrace.calls.unseen_switches`.
* A call whose return is not watched, or was not hooked on purpose, ends *open*: the next entry of
  its frame counts as another call, or a loop of calls would nest without end.
* A function whose exits are watched (sites) reports when it is left by a jump to another one: see
  `lbtrace.calls.tail_calls`. A call of the same frame that did not report so did not jump.
* Calls on a stack that the program made itself are matched by that stack, whichever thread runs
  on it, those of a goroutine by the goroutine, and all end with it. A stack for signals counts as
  the lower end of the stack that the signal interrupts. What a thread lost may have happened on
  any stack that it may have run on.
* Markers that open and close calls: see `lbtrace.calls.marker_pairs`.
* A forked process continues the calls of its parent: see `lbtrace.calls.forks`.
* A return whose entry is not known is counted and not shown. Its entry was lost (which the losses
  show), or came before the trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from lbtrace.calls.call_stack import NEVER, Stack
from lbtrace.calls.ends import Ends
from lbtrace.calls.frames import Frames
from lbtrace.calls.loss_times import NEVER_AGAIN, LossTimes
from lbtrace.calls.marker_pairs import Pairs
from lbtrace.calls.payload import Blob
from lbtrace.calls.points import PointAssembler
from lbtrace.calls.probe_decoding import Act, ProbeDecoder, ProbeDecoders
from lbtrace.calls.thread_lifetimes import ThreadLifetimes
from lbtrace.calls.threads import Threads
from lbtrace.calls.unseen_switches import UnseenStacks
from lbtrace.calls.visitor import Visitor
from lbtrace.errors import CaptureError
from lbtrace.model import (
    CALLERS,
    CLOSE,
    EXEC,
    FORK,
    INTERRUPT,
    KIND,
    LOSS,
    OFF_CPU,
    OPEN,
    POINT,
    UNPROBED,
    UNWOUND,
    Batch,
    Callers,
    Event,
    Frame,
    Loss,
    Plan,
    Thread,
    lost_events,
    wire,
)
from lbtrace.model.calls import STACK_ENDS
from lbtrace.probes import STACK_ROLES

NO_CALLERS = (-1, None)

LOST_FRAME = Frame("", 0)
"""One whose name a damaged capture has lost."""


class CallMatcher:
    """Drives a visitor with the calls that it finds in batches of events.

    Calls ``max_depth`` deep and deeper are matched and counted, but not shown.
    """

    def __init__(self, plan: Plan, visitor: Visitor, *, max_depth: int | None = None) -> None:
        self._probes = ProbeDecoders(plan, self._act_of)
        self._known_frames = plan.frames
        self._callers: dict[int, tuple[int, Callers | None]] = {}
        lifetimes = ThreadLifetimes()
        losses = LossTimes(shared=not any(binary.go for binary in plan.binaries))
        roles = {probe.role for probe in plan.probes}
        unseen = plan.unseen_switches
        stacks = UnseenStacks(exchanges=unseen == "exchanges") if unseen else None
        self._off_cpu = None
        if plan.off_cpu:
            from lbtrace.calls.off_cpu import OffCpuTimes  # imported here as few ask for them

            visitor = self._off_cpu = OffCpuTimes(visitor)
        self._ends = ends = Ends(self._probes, visitor, max_depth, losses, stacks)
        self._points = points = PointAssembler(ends, parts="more values" in roles)
        self._frames = Frames(ends, points)
        reported = not roles.isdisjoint(STACK_ROLES)
        self._threads = Threads(ends, points, lifetimes, reported=reported)
        self._pairings: Mapping[str, Mapping[str, Act]] = {
            "frame": {**self._frames.acts, **self._threads.acts},
            "lane": Pairs(ends, points).acts,
        }

    def _act_of(self, decoder: ProbeDecoder) -> Act:
        return self._points.act_of(self._pairings.get(decoder.pairing, {}), decoder)

    @property
    def calls(self) -> int:
        """Calls that began."""
        return self._ends.calls

    @property
    def points(self) -> int:
        """Places inside of functions that threads came by."""
        return self._points.points

    @property
    def returns_without_entry(self) -> int:
        """Returns whose entry is not known."""
        return self._ends.returns_without_entry

    @property
    def return_depth(self) -> int:
        """Calls whose return the kernel could not deliver."""
        return self._frames.return_depth

    def finish(self) -> None:
        """End all calls that are still open."""
        self._threads.finish()

    def grow(self, plan: Plan) -> None:
        """Match events of a plan that has grown from now on."""
        self._known_frames = plan.frames
        if len(plan.probes) != self._probes.count:
            self._probes.grow(plan)

    @property
    def threads(self) -> int:
        """Threads that made calls, or returned from inherited ones."""
        return self._threads.lifetimes.threads

    @property
    def processes(self) -> int:
        """Processes that made calls, or returned from inherited ones."""
        return self._threads.lifetimes.processes

    def feed(self, batch: Batch) -> None:
        """Match the events of a batch.

        Raises `CaptureError` for an event of a probe the plan does not have.
        """
        # The events have been sorted by time since the ring; the records of threads have not.
        threads = deque(sorted(batch.threads, key=lambda thread: thread.time))
        self._match(batch.events, batch.blobs, threads)

    def _match(
        self, events: bytes | memoryview, blobs: bytes | memoryview, threads: deque[Thread]
    ) -> int:
        """Match events one by one; how many of the ``blobs`` accompany them."""
        due = threads[0].time if threads else NEVER_AGAIN
        stacks, probes, stacked = self._threads.stacks, self._probes, self._threads.lanes.has_stacks
        callers, position = self._callers, 0
        for event in wire.decode_all(events):
            blob: Blob = b""
            if event.blob:
                blob = blobs[position : position + event.blob]
                position += event.blob
            try:
                decoding = probes[event.probe]
            except KeyError:
                if (kind := event.kind & KIND) in (
                    UNPROBED,
                    FORK,
                    EXEC,
                    INTERRUPT,
                    CALLERS,
                ):  # the plan has no probes yet
                    if kind == UNPROBED:
                        self._ends.losses.note_gap(event.time, event.value0)
                    continue
                raise CaptureError(
                    f"an event names probe {event.probe}, but the plan has {probes.count}",
                    "the capture is damaged, or was written by a faulty program",
                ) from None
            if event.kind & KIND == CALLERS:
                callers[event.tid] = event.time, self._callers_of(event, blob)
                continue
            if event.time >= due:
                due = self._threads.note(threads, event.time)
            if (event.kind > POINT or stacked) and not self._place(decoding, event):
                continue
            stack = stacks.get(event.tid if not event.lane else (event.pid, event.lane))
            if stack is None or stack.pid != event.pid:
                stack = self._threads.begin(decoding, event)
                if stack is None:
                    continue
            if callers:
                sent, stack.callers = callers.pop(event.tid, NO_CALLERS)
                if sent != event.time:  # the event that they came with was lost
                    stack.callers = None
            decoding.act(stack, decoding, event, blob)
        return position

    def _callers_of(self, event: Event, blob: Blob) -> Callers:
        """The callers that an event of kind `CALLERS` tells."""
        known = self._known_frames
        numbers = memoryview(blob)[: len(blob) & ~3].cast("I")
        frames = tuple(known[n] if n < len(known) else LOST_FRAME for n in numbers)
        return Callers(frames, STACK_ENDS.get(event.value1, "unknown"))

    def _place(self, decoding: ProbeDecoder, event: Event) -> bool:
        """Place an event on its stack; false where no probe's role says what it means."""
        kind = event.kind & KIND
        if kind == UNPROBED:
            self._ends.losses.note_gap(event.time, event.value0)
        if kind > LOSS and kind != UNWOUND:  # events of unknown kinds are ignored
            if kind == FORK:
                self._threads.fork(event)
            elif kind == EXEC:
                self._threads.execute(event)
            elif kind == INTERRUPT:
                self._threads.lanes.interrupt(event)
            elif kind == OFF_CPU and self._off_cpu:
                self._off_cpu.note(event)
            return False
        threads = self._threads
        calls = threads.lanes.place(decoding, event)
        if kind not in (LOSS, UNWOUND):
            return calls
        stack = threads.stacks.get(threads.key(event))
        if stack is not None and stack.pid != event.pid:
            stack = None
        if kind == UNWOUND:
            if stack is not None:
                self._points.report_waiting(stack)
                self._ends.close_left(stack, event.frame + 1, event)
            else:
                threads.land_first(event)
            return False
        stack = stack or threads.begin(decoding, event)
        if stack is not None:
            self._lose(stack, event)
        return False

    def _lose(self, stack: Stack, event: Event) -> None:
        self._points.report_waiting(stack)
        stack.last_return_frame = NEVER
        lost = lost_events(event)
        entries, returns = lost[OPEN], lost[0] + lost[CLOSE] + lost[POINT]
        stack.lost_time, stack.lost_count = event.time, entries + returns
        stack.lost.note(event.time, entries, returns)
        self._ends.losses.note(event.pid, event.tid, event.time, entries, returns)
        depth, count = len(stack.calls), stack.lost_count
        self._ends.visitor.loss(
            Loss(event.pid, event.tid, depth, event.time, count, entries, event.lane)
        )
