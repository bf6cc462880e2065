"""Events to calls: entries and returns matched per thread, by frame.

A frame is the stack pointer at a function's entry. Stacks grow down, so a
nested call has a lower frame than its caller; a function reached by a tail
call has the same one. From this follows which calls are over:

* A return ends the innermost open call of its function and frame. Calls
  inside it that did not return were left by an exception, longjmp or the
  like: they are *unwound*.
* An entry ends the calls whose frames lie below its own. A call of the same
  frame stays open, for this may be a tail call, whose return the kernel
  delivers right after the other one's; it is over when it is the same
  function, unless that may have jumped to one that jumped back, or when a
  call of that frame has returned before this entry.
* Where a function goes on after an exception, or setjmp returns, a probe tells the frame
  of calls made from there: those of it, and below, are over.
* Where the thread (or goroutine) lost events after a call began, its return may be among
  them; such a call ends *open*, not unwound. Where entries and returns were
  lost, a return may be that of a later call, and ends the earlier one *open*.
* A function whose exits are watched (sites) tells when it is left by a jump
  to another one: its call ends as a *tail* call at once. A call of the same
  frame that did not tell so did not jump.
* Calls on a stack that the program made itself are matched by that stack,
  whichever thread runs on it, those of a goroutine by the goroutine, and all
  are over when it ends. A stack for signals counts as the lower end of
  the stack that the signal interrupts. What a thread lost may have happened on any
  stack that it may have run on.
* A return whose entry is not known is counted and not shown. Its entry was
  lost (which the losses tell), lies before the trace, or was made by the
  parent of a forked process, whose stack the child continues.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from lbtrace import wire
from lbtrace.calls.lives import Lives
from lbtrace.calls.meaning import Decoding, decodings
from lbtrace.calls.opened import NEVER, Lost, Stack
from lbtrace.calls.stacks import Fibers, Region, Regions
from lbtrace.errors import CaptureError
from lbtrace.model import (
    ENTRY,
    RETURN,
    Batch,
    Call,
    End,
    Event,
    Loss,
    Plan,
    Thread,
)

MAX_RETURN_DEPTH = 64
"""Nested uretprobes of a task the kernel keeps: MAX_URETPROBE_DEPTH in
``include/linux/uprobes.h``."""

NEVER_AGAIN = 1 << 64
"""A time that does not come."""

BELOW_ALL = 1 << 64
"""What puts a frame of a signal's stack below all others."""


class Visitor(Protocol):
    """What a `CallMatcher` drives: a sink, or anything that wants calls."""

    def thread(self, thread: Thread) -> None:
        """A thread got its name."""

    def entry(self, call: Call) -> None:
        """A call began."""

    def exit(self, call: Call) -> None:
        """The same call ended, as its ``end`` says; innermost calls first."""

    def loss(self, loss: Loss) -> None:
        """Events of a thread are missing here."""


class CallMatcher:
    """Drives a visitor with the calls that batches of events amount to.

    Calls ``max_depth`` deep and deeper are matched and counted, but not
    shown. ``calls`` counts the calls seen, ``threads`` and ``processes``
    those they were made in. ``returns_without_entry`` and ``return_depth``
    (calls whose return the kernel could not deliver) count what the module's
    text says of them.
    """

    def __init__(self, plan: Plan, visitor: Visitor, *, max_depth: int | None = None) -> None:
        self.calls = 0
        self.returns_without_entry = 0
        self.return_depth = 0
        self._visitor = visitor
        self._max_depth = max_depth if max_depth is not None else 1 << 62
        self._probes = decodings(plan)
        stacks = any(d.region or d.is_switch for d in self._probes.values())
        self._regions = Regions() if stacks else None
        self._fibers = Fibers()
        self._running: dict[int, int] = {}
        self._lives = Lives()
        self._stacks: dict[int | tuple[int, int], Stack] = {}
        self._lost: dict[int | tuple[int], Lost] = {}
        self._threads: set[tuple[int, int]] = set()

    @property
    def threads(self) -> int:
        """Threads in which events occurred."""
        return len(self._threads) + self._lives.threads

    @property
    def processes(self) -> int:
        """Processes in which events occurred."""
        return len({pid for pid, _ in self._threads}) + self._lives.processes

    def feed(self, batch: Batch) -> None:
        """Match the events of a batch.

        Raises `CaptureError` for an event of a probe the plan does not have.
        """
        # They come as the ring held their events, which are by time since.
        threads = deque(sorted(batch.threads, key=lambda thread: thread.time))
        due = threads[0].time if threads else NEVER_AGAIN
        stacks, probes, regions = self._stacks, self._probes, self._regions
        enter, leave = self._enter, self._leave
        blobs, position = batch.blobs, 0
        blob: bytes | memoryview = b""
        for event in wire.decode(batch):
            if event.blob:
                blob = blobs[position : position + event.blob]
                position += event.blob
            decoding = probes.get(event.probe)
            if decoding is None:
                raise CaptureError(
                    f"an event names probe {event.probe}, but the plan has {len(probes)}",
                    "the capture is damaged, or was written by a faulty program",
                )
            if event.time >= due:
                due = self._note(threads, event.time)
            calls = True
            if regions is not None and not event.goroutine:
                calls = self._on_stack(regions, decoding, event)
                if not (calls or event.lost):
                    continue
            stack = stacks.get(event.tid if not event.goroutine else (event.pid, event.goroutine))
            if stack is None or stack.pid != event.pid:
                if decoding.is_landing and not event.lost:
                    continue  # nothing is known that could be left
                stack = self._new_stack(event)
            if event.lost:
                self._lose(stack, event)
            if not calls:
                continue
            if event.kind == ENTRY:
                enter(stack, decoding, event, blob)
            elif event.kind == RETURN:
                leave(stack, decoding, event, blob)

    def _note(self, threads: deque[Thread], time: int) -> int:
        """Take what is told of ``threads`` up to ``time``; the time of the next one."""
        while threads and threads[0].time <= time:
            thread = threads.popleft()
            if over := self._lives.note(thread):
                self._renew(thread, whole=over == "process")
            self._visitor.thread(thread)
        return threads[0].time if threads else NEVER_AGAIN

    def _renew(self, thread: Thread, *, whole: bool) -> None:
        """A thread begins anew, or its ``whole`` process."""
        for key, stack in list(self._stacks.items()):
            if key == thread.tid or (whole and stack.pid == thread.pid):
                self._abandon(stack)
                del self._stacks[key]
        if self._regions is not None and whole:
            self._regions.forget(thread.pid)
            self._fibers.forget(thread.pid)

    def _on_stack(self, regions: Regions, decoding: Decoding, event: Event) -> bool:
        """Make an event's stack part of it; false if all it says is that there is a new one."""
        if event.lost & 0xFFFF and event.frame:  # a switch may be among it
            self._begin(event.pid, self._fibers.lose(event.pid, event.tid, event.frame))
        if decoding.is_switch:
            event.goroutine = self._fibers.running(event.tid)
            if not event.faults:
                to = self._fibers.switch(event.pid, event.tid, event.frame, event.value0)
                self._begin(event.pid, to)
            return False
        if decoding.region:
            event.goroutine = self._running.get(event.tid, 0)
            if not event.faults:
                end = event.value0 + event.value1
                regions.learn(event.pid, Region(event.value0, end, decoding.region))
            return False
        region = regions.find(event.pid, event.frame)
        if region and region.kind == "signal stack":
            event.frame -= BELOW_ALL
            event.goroutine = self._running.get(event.tid, 0)
        else:
            lane = region.start if region else self._fibers.running(event.tid)
            event.goroutine = self._running[event.tid] = lane
        return True

    def _begin(self, pid: int, lane: int) -> None:
        """A stack is new: what had its number is over. 0 is none."""
        if former := self._stacks.pop((pid, lane), None):
            self._abandon(former)

    def finish(self) -> None:
        """End all calls that are still open."""
        for stack in self._stacks.values():
            self._abandon(stack)
        self._stacks.clear()

    def _new_stack(self, event: Event) -> Stack:
        key = event.tid if not event.goroutine else (event.pid, event.goroutine)
        former = self._stacks.get(key)
        if former is not None:  # the number was given to a thread of another process
            self._abandon(former)
        self._threads.add((event.pid, event.tid))
        lost = Lost()
        if self._regions is not None:
            lost = self._lost.setdefault(key if key == event.tid else (event.pid,), lost)
        stack = self._stacks[key] = Stack(event.pid, lost)
        return stack

    def _enter(
        self, stack: Stack, decoding: Decoding, event: Event, blob: bytes | memoryview
    ) -> None:
        calls, frame = stack.calls, event.frame
        # A call of the frame that just returned would have returned with it.
        over = frame if frame > stack.returned else stack.returned + 1
        if calls and calls[-1].frame <= over:
            self._close_below(stack, over)
            if calls and calls[-1].frame == frame:
                before = self._probes[calls[-1].probe]
                if before.by_sites or (before.same(decoding) and not self._went_on(stack)):
                    self._close(stack)
        stack.returned = NEVER
        depth = len(calls)
        call = Call(
            decoding.name,
            event.pid,
            event.tid,
            depth,
            event.time,
            frame,
            event.probe,
            decoding.arguments(event, blob),
            lost=(event.lost >> 16) + (event.lost & 0xFFFF),
            goroutine=event.goroutine,
            binary=decoding.binary,
        )
        calls.append(call)
        self.calls += 1
        if decoding.by_uretprobe:
            stack.hooked += 1
            self.return_depth += stack.hooked > MAX_RETURN_DEPTH
        if depth < self._max_depth:
            self._visitor.entry(call)

    def _went_on(self, stack: Stack) -> bool:
        """Whether the innermost call, whose function begins anew at the same frame, did so
        by a jump, so that both will return; else it is over."""
        call = stack.calls[-1]
        lost = call.start < stack.lost.at or stack.hooked > MAX_RETURN_DEPTH
        return self._probes[call.probe].may_jump and not lost

    def _leave(
        self, stack: Stack, decoding: Decoding, event: Event, blob: bytes | memoryview
    ) -> None:
        calls, frame = stack.calls, event.frame
        if not calls or calls[-1].frame != frame or calls[-1].probe != decoding.entry:
            if decoding.ends_goroutine:
                self._forget(stack, event)
                return
            if decoding.is_landing:
                self._close_below(stack, frame + 1)
                return
            self._close_below(stack, frame)
            if not self._close_above(stack, decoding, frame):
                self.returns_without_entry += 1
                return
        if decoding.is_tail:
            stack.returned = NEVER
            self._end(stack, "tail")
            return
        stack.returned = frame
        if calls[-1].start < stack.lost.entry_at and calls[-1].start < stack.lost.return_at:
            self._end(stack, "open")  # the return may be that of a later call, wholly unseen
            return
        call = calls.pop()
        stack.hooked -= decoding.by_uretprobe
        call.result = decoding.result(event, blob)
        call.duration = event.time - call.start
        call.end = "returned"
        if call.depth < self._max_depth:
            self._visitor.exit(call)

    def _forget(self, stack: Stack, event: Event) -> None:
        """A goroutine is gone: calls that are still open were left by runtime.Goexit."""
        while stack.calls:
            self._close(stack)
        self._stacks.pop((event.pid, event.goroutine), None)

    def _close_below(self, stack: Stack, frame: int) -> None:
        """Close the calls whose frames lie below ``frame``."""
        calls = stack.calls
        while calls and calls[-1].frame < frame:
            self._close(stack)

    def _close_above(self, stack: Stack, decoding: Decoding, frame: int) -> bool:
        """Close the calls above the innermost one of this frame and function,
        if there is such a call."""
        calls = stack.calls
        for index in range(len(calls) - 1, -1, -1):
            call = calls[index]
            if call.frame != frame:
                return False
            if self._probes[call.probe].same(decoding):
                while len(calls) > index + 1:
                    self._close(stack)
                return True
        return False

    def _close(self, stack: Stack) -> None:
        """Close the innermost call, which did not return."""
        call = stack.calls[-1]
        decoding = self._probes[call.probe]
        # Calls made before the loss may have returned in what was lost.
        if call.start < stack.lost.at or not decoding.returns:
            end: End = "open"
        elif decoding.by_uretprobe and stack.hooked > MAX_RETURN_DEPTH:
            end = "open"
        else:
            end = "unwound"
        self._end(stack, end)

    def _abandon(self, stack: Stack) -> None:
        while stack.calls:
            self._end(stack, "open")

    def _end(self, stack: Stack, end: End) -> None:
        call = stack.calls.pop()
        stack.hooked -= self._probes[call.probe].by_uretprobe
        call.end = end
        if call.depth < self._max_depth:
            self._visitor.exit(call)

    def _lose(self, stack: Stack, event: Event) -> None:
        stack.returned = NEVER
        entries, returns = event.lost >> 16, event.lost & 0xFFFF
        stack.lost.note(event.time, entries, returns)
        if self._regions is not None:
            # The thread may have run on any stack then, but not on another thread's own.
            for key in (event.tid, (event.pid,)):
                self._lost.setdefault(key, Lost()).note(event.time, entries, returns)
        depth, count = len(stack.calls), entries + returns
        self._visitor.loss(
            Loss(event.pid, event.tid, depth, event.time, count, entries, event.goroutine)
        )
