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

from lbtrace.calls.call_stack import BEYOND, NEVER, Stack
from lbtrace.calls.forks import Inheritances
from lbtrace.calls.lanes import Lanes
from lbtrace.calls.loss_times import NEVER_AGAIN, LossTimes
from lbtrace.calls.probe_decoding import Act, ProbeDecoder, ProbeDecoders
from lbtrace.calls.tail_calls import TailMatcher
from lbtrace.calls.thread_lifetimes import ThreadLifetimes
from lbtrace.calls.unseen_switches import UnseenStacks
from lbtrace.calls.visitor import Visitor
from lbtrace.errors import CaptureError
from lbtrace.model import (
    CLOSE,
    EXEC,
    FORK,
    INTERRUPT,
    KIND,
    LOSS,
    OPEN,
    POINT,
    UNHOOKED,
    UNPROBED,
    UNWOUND,
    Batch,
    Event,
    Loss,
    Plan,
    Thread,
    lost_events,
    wire,
)
from lbtrace.probes import STACK_ROLES

MAX_RETURN_DEPTH = 64
"""Nested uretprobes of a task: MAX_URETPROBE_DEPTH in ``include/linux/uprobes.h``."""


class CallMatcher(TailMatcher):
    """Drives a visitor with the calls that it finds in batches of events.

    Calls ``max_depth`` deep and deeper are matched and counted, but not
    shown. ``calls`` counts the calls seen, ``points`` the places inside of functions, ``threads``
    and ``processes`` those they were seen in, or that returned from inherited calls.
    ``returns_without_entry`` and ``return_depth`` (calls whose return the kernel could not deliver)
    count cases of the module's docstring.
    """

    def __init__(self, plan: Plan, visitor: Visitor, *, max_depth: int | None = None) -> None:
        super().__init__(visitor, max_depth)
        self.returns_without_entry = 0
        self.return_depth = 0
        acts: dict[str, dict[str, Act]] = {
            "frame": {
                "opens": self._enter,
                "closes": self._leave,
                "tail": self._leave_by_jump,
                "tail return": self._relay,
                "landing": self._land,
                "point": self._pass_by,
                "exchange": self._exchange,
                "lane end": self._end_lane,
            },
            "lane": {
                "opens": self._enter_pair,
                "closes": self._leave_pair,
                "point": self._pass_by,
            },
            "key": {"opens": self._enter_crossing, "closes": self._leave_crossing},
        }
        self._probes = ProbeDecoders(
            plan, lambda decoder: self._act_of(acts.get(decoder.pairing, {}), decoder)
        )
        self._has_parts = any(probe.role == "more values" for probe in plan.probes)
        stacks = any(probe.role in STACK_ROLES for probe in plan.probes)
        self._lifetimes = ThreadLifetimes()
        self._lanes = Lanes(self._renew_fiber, stacks=stacks)
        self._stacks = {}
        self._inheritances = Inheritances()
        self._losses = LossTimes(shared=not any(binary.go for binary in plan.binaries))
        unseen = plan.unseen_switches
        if any(probe.role == "switch" for probe in plan.probes):  # captures of former versions
            unseen = unseen or "any"
        if unseen:
            self._unseen = UnseenStacks(unseen, self._lifetimes.has_begun)

    def grow(self, plan: Plan) -> None:
        """Match events of a plan that has grown by points from now on."""
        self._probes.grow(plan)

    @property
    def threads(self) -> int:
        """Threads that made calls, or returned from inherited ones."""
        return self._lifetimes.threads

    @property
    def processes(self) -> int:
        """Processes that made calls, or returned from inherited ones."""
        return self._lifetimes.processes

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
        stacks, probes, stacked = self._stacks, self._probes, self._lanes.has_stacks
        position = 0
        for event in wire.decode_all(events):
            blob: bytes | memoryview = b""  # damaged events may refer to bytes that they lack
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
                ):  # the plan has no probes yet
                    if kind == UNPROBED:
                        self._losses.note_gap(event.time, event.value0)
                    continue
                raise CaptureError(
                    f"an event names probe {event.probe}, but the plan has {probes.count}",
                    "the capture is damaged, or was written by a faulty program",
                ) from None
            if event.time >= due:
                due = self._note(threads, event.time)
            if (event.kind > POINT or stacked) and not self._place(decoding, event):
                continue
            stack = stacks.get(event.tid if not event.lane else (event.pid, event.lane))
            if stack is None or stack.pid != event.pid:
                stack = self._begin(decoding, event)
                if stack is None:
                    continue
            decoding.act(stack, decoding, event, blob)
        return position

    def _place(self, decoding: ProbeDecoder, event: Event) -> bool:
        """Place an event on its stack; false where no probe's role says what it means."""
        kind = event.kind & KIND
        if kind == UNPROBED:
            self._losses.note_gap(event.time, event.value0)
        if kind > LOSS and kind != UNWOUND:  # events of unknown kinds are ignored
            if kind == FORK:
                self._fork(event)
            elif kind == EXEC:
                self._execute(event)
            elif kind == INTERRUPT:
                self._lanes.interrupt(event)
            return False
        calls = self._lanes.place(decoding, event)
        if kind == UNWOUND:
            if (left := self._stacks.get(self._key(event))) is not None and left.pid == event.pid:
                self._report_waiting(left)
                self._close_left(left, event.frame + 1, event)
            else:
                self._land_first(event)
            return False
        if kind != LOSS:
            return calls
        stack = self._stacks.get(self._key(event))
        if stack is None or stack.pid != event.pid:
            stack = self._begin(decoding, event)
        if stack is not None:
            self._lose(stack, event)
        return False

    def _enter(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        calls, frame = stack.calls, event.frame
        # A call of the frame that just returned would have returned with it.
        over = frame if frame > stack.last_return_frame else stack.last_return_frame + 1
        if calls and calls[-1].frame <= over:
            self._close_below(stack, over, event.time)
            if stack.pairs:
                self._end_pairs(stack, frame)
            if calls and calls[-1].frame == frame:
                jumped = bool(stack.jumped) and self._has_jumped(stack)
                if (
                    decoding.loops_to_entry
                    and not jumped
                    and self._goes_round(stack, decoding, event)
                ):
                    return
                before = self._probes[calls[-1].probe]
                unhooked = len(calls) - 1 in stack.unhooked
                again = before.same(decoding) and not self._went_on(stack)
                stays = jumped or before.by_uretprobe or before.may_jump
                if not stays or unhooked or (again and not jumped):
                    self._close(stack, event.time)
        stack.last_return_frame = NEVER
        depth = len(calls)
        call = stack.open(decoding.begin(event, blob))
        self.calls += 1
        if self._unseen:
            self._unseen.enter(call)
        if decoding.by_uretprobe and event.kind & UNHOOKED:
            stack.unhooked.add(depth)
        elif decoding.by_uretprobe:
            stack.uretprobe_count += 1
            self.return_depth += stack.uretprobe_count > MAX_RETURN_DEPTH
        if depth < self._max_depth:
            self._visitor.entry(call)

    def _went_on(self, stack: Stack) -> bool:
        """Whether the innermost call, whose function starts again at the same frame, did so
        by a jump, so that both will return; else it has ended."""
        call = stack.calls[-1]
        lost = call.start < stack.lost.at or stack.uretprobe_count > MAX_RETURN_DEPTH
        return self._probes[call.probe].may_jump and not lost

    def _goes_round(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Whether a function that jumps back to its first instruction did so in the
        innermost call, which continues."""
        call = stack.calls[-1]
        if not decoding.same(self._probes[call.probe]) or call.start < stack.lost.return_at:
            return False
        if self._losses.may_hide(call.start, event.time):  # or it has returned, and this is another
            stack.lost.unsure_before = max(stack.lost.unsure_before, call.start + 1)
        if not decoding.by_uretprobe:
            return decoding.by_sites
        if call.depth in stack.unhooked or event.kind & UNHOOKED:
            return True
        if stack.uretprobe_count > MAX_RETURN_DEPTH:
            return False
        if stack.uretprobe_count < MAX_RETURN_DEPTH:
            stack.uretprobe_count += 1
            stack.repeat_hits[call.frame, call.probe] = (
                stack.repeat_hits.get((call.frame, call.probe), 0) + 1
            )
        return True

    def _leave(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        latest = self._unseen.leave(decoding, event) if self._unseen else None
        if decoding.loops_to_entry and stack.is_echo(event.frame, decoding.entry):
            return
        if self._close_others(stack, decoding, event):
            self._return(stack, decoding, event, blob, latest)
        if stack.jumped or stack.relayed:
            self._return_jumped(stack, event, blob)

    def _land(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        """Unwind the calls at the event's frame and below: the program continues there, and they
        have taken until then."""
        calls = stack.calls
        while calls and calls[-1].frame <= event.frame:
            call = calls[-1]
            if call.depth >= stack.inherited and self._would_have_returned(stack, event.time):
                call.duration, call.end_cpu = event.time - call.start, event.cpu
            self._close(stack, event.time)
        self._visitor.left(event)

    def _exchange(self, stack: Stack, *_: object) -> None:
        """End all calls of a stack: others may be on it from now on."""
        self._abandon(stack)
        stack.last_return_frame = NEVER

    def _end_lane(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        """Unwind the open calls of a goroutine that has ended; they were left by runtime.Goexit."""
        self._abandon_crossing(stack)
        self._close_left(stack, BEYOND, event)
        self._stacks.pop((event.pid, event.lane), None)

    def _close_others(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Close the calls that have ended when a closing probe is hit, so that its call is
        innermost; false if that call is unknown."""
        calls, frame = stack.calls, event.frame
        if calls and calls[-1].frame == frame and calls[-1].probe == decoding.entry:
            return True
        self._close_below(stack, frame, event.time)
        if self._close_above(stack, decoding, event):
            return True
        self._visitor.left(event)
        self.returns_without_entry += 1
        return False

    def _close_above(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Close the calls above the innermost one of the event's frame and function,
        if there is such a call."""
        calls, frame = stack.calls, event.frame
        for index in range(len(calls) - 1, -1, -1):
            call = calls[index]
            if call.frame != frame:
                return False
            if self._probes[call.probe].same(decoding):
                while len(calls) > index + 1:
                    self._close(stack, event.time)
                return True
        return False

    def _close(self, stack: Stack, time: int) -> None:
        self._end(stack, "unwound" if self._would_have_returned(stack, time) else "open")

    def _would_have_returned(self, stack: Stack, time: int) -> bool:
        """Whether a return of the innermost call would have been seen until ``time``."""
        call = stack.calls[-1]
        decoding = self._probes[call.probe]
        if call.start < stack.lost.at or call.depth in stack.unhooked or not decoding.returns:
            return False
        if self._losses.may_hide(call.start, time):
            return False
        if not stack.exact or (self._unseen and self._unseen.has(stack.pid)):
            return False
        return not decoding.by_uretprobe or stack.uretprobe_count <= MAX_RETURN_DEPTH

    def _abandon(self, stack: Stack) -> None:
        self._report_waiting(stack)
        self._abandon_crossing(stack)
        while stack.calls:
            self._end(stack, "open")

    def _lose(self, stack: Stack, event: Event) -> None:
        self._report_waiting(stack)
        stack.last_return_frame = NEVER
        lost = lost_events(event)
        entries, returns = lost[OPEN], lost[0] + lost[CLOSE] + lost[POINT]
        stack.lost_time, stack.lost_count = event.time, entries + returns
        stack.lost.note(event.time, entries, returns)
        self._losses.note(event.pid, event.tid, event.time, entries, returns)
        depth, count = len(stack.calls), stack.lost_count
        self._visitor.loss(
            Loss(event.pid, event.tid, depth, event.time, count, entries, event.lane)
        )
