"""Places each event on a lane: one of the stacks that its thread may run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lbtrace.calls.fibers import Fibers
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.calls.stack_regions import HIGHEST, Region, Regions, StackKind, own_stack
from lbtrace.model import (
    KIND,
    LOSS,
    ON_ALTSTACK,
    OPEN,
    POINT,
    THREAD_POINTER,
    Event,
    lost_events,
)

SS_DISABLE = 2
"""What ``ss_flags`` have where a thread gives up its stack for signals: sigaltstack(2)."""

BELOW_ALL = 1 << 64
"""Offset that sorts frames of a signal stack below all others."""


class Lanes:
    """Places events on stacks; ``renew`` is called with a process and the number of a stack
    of it that is new, so that the one that had that number has ended, ``jump`` with an event that
    may be a jump within the stack where it happens; it returns whether it is one. With ``stacks``,
    programs may run on others than those of their threads; ``earlier`` says of a process whether
    its threads may have switched to others before they are seen, if switches are seen."""

    def __init__(
        self,
        renew: Callable[[int, int], None],
        jump: Callable[[Event], bool],
        *,
        stacks: bool,
        earlier: Callable[[int], bool] | None = None,
    ) -> None:
        self.has_stacks = stacks
        self._renew = renew
        self._jump = jump
        self._earlier = earlier
        self._all_attached = False
        self._regions = Regions() if stacks else None
        self._fibers = Fibers()
        self._running: dict[int, int] = {}
        self._interrupted: dict[int, int] = {}
        self._for_signals: dict[int, Region] = {}

    def forget(self, pid: int) -> None:
        """Forget the stacks of a process that has ended."""
        if self._regions is not None:
            self._regions.forget(pid)
            self._fibers.forget(pid)

    def execute(self, pid: int) -> None:
        """Forget the stacks of a process that has executed another program just now."""
        self._running.pop(pid, None)
        self._interrupted.pop(pid, None)
        self._for_signals.pop(pid, None)
        if self._regions is not None:
            self._regions.find(pid, 0)  # none of them belongs to the new one
            self.forget(pid)

    def made_by(self, pid: int, tid: int) -> set[int]:
        """Return the numbers of the stacks that a process has made, without those on which other
        threads than this run."""
        if self._regions is None:
            return set()
        return self._regions.made_by(pid) | self._fibers.made_by(pid, tid)

    def fork(self, parent: int, tid: int, child: int) -> None:
        """A thread of ``parent`` forks ``child``, whose first thread continues on a copy of the
        same stack."""
        if self._regions is not None:
            self._regions.fork(parent, tid, child)
            self._fibers.fork(parent, tid, child)
            self._running[child] = self._running.get(tid, 0)
            self._interrupted.pop(child, None)
            if tid in self._interrupted:
                self._interrupted[child] = self._interrupted[tid]
            if tid in self._for_signals:
                self._for_signals[child] = self._for_signals[tid]

    def place(self, decoder: ProbeDecoder, event: Event) -> bool:
        """Make the number of its stack part of an event; false if the event only reports a new
        stack."""
        if event.kind & ON_ALTSTACK and not decoder.stacks:
            event.frame -= BELOW_ALL
        pointer = _take_pointer(event)
        if self._regions is None or event.goroutine:
            return True
        if event.kind & KIND == LOSS:
            self._lose_switches(event)
        if decoder.stacks:
            self._change_stacks(self._regions, decoder, event, pointer)
            return False
        self._find_lane(self._regions, event, pointer)
        return True

    def interrupt(self, event: Event) -> None:
        """A signal interrupts a thread where an event says, and is handled on another stack."""
        self.locate(event)
        self._interrupted[event.tid] = event.goroutine

    def locate(self, event: Event) -> None:
        """Make the number of the stack part of an event on which its thread is where a signal
        interrupts it, or it forks: it runs there until another event says otherwise."""
        if event.kind & ON_ALTSTACK:
            event.frame -= BELOW_ALL
        pointer = _take_pointer(event)
        if self._regions is not None:
            self._find_lane(self._regions, event, pointer)

    def _find_lane(self, regions: Regions, event: Event, pointer: int) -> None:
        frame = event.frame % BELOW_ALL
        region = regions.find(event.pid, frame)
        if pointer and region and regions.is_own(event.pid, event.tid, frame, pointer, region):
            regions.drop(event.pid, region)
            self._renew(event.pid, region.start)
            region = None
        signal = event.frame < 0  # the event says which
        if signal or (region and region.kind == "signal stack"):
            event.frame -= 0 if signal else BELOW_ALL
            running = self._running.get(event.tid, 0)
            event.goroutine = self._interrupted.get(event.tid, running)
            return
        lane = region.start if region else self._running_on(event, pointer)
        event.goroutine = self._running[event.tid] = lane
        if regions.nested:
            of = (event.pid, lane) if lane else own_stack(event.pid, event.tid)
            for over in regions.left(of, frame):
                self._renew(event.pid, over.start)

    def _running_on(self, event: Event, pointer: int) -> int:
        """The number of the stack that no region is known of on which a thread is. What opens calls
        is attached last: until then switches may be missed."""
        tid, frame = event.tid, event.frame % BELOW_ALL
        self._all_attached |= event.kind & KIND == OPEN
        if pointer and self._all_attached and self._is_first(event):
            self._fibers.begin(tid, frame, pointer, leads=tid == event.pid)
        return self._fibers.running(tid)

    def _is_first(self, event: Event) -> bool:
        """Whether a thread may have switched stacks before this event, which is its first one."""
        if self._earlier is None or self._fibers.has_begun(event.tid):
            return False
        return self._earlier(event.pid)

    def own_stack(self, event: Event) -> tuple[int, int] | None:
        """Return the lowest and the highest frame around that of an event for which `place` need
        not be asked, as the thread runs on its own stack there; None where it has to be."""
        regions = self._regions
        if regions is None or event.goroutine:
            return 0, HIGHEST
        if any(regions.nested.values()) or self._fibers.running(event.tid):
            return None
        if self._is_first(event):
            return None
        frames = regions.gap(event.pid, event.frame)
        if frames is not None:
            self._running[event.tid] = 0
        return frames

    def _lose_switches(self, event: Event) -> None:
        """Forget which stack a thread is on, if a switch may be among what it lost."""
        lost = lost_events(event)
        if lost[0]:  # a signal may be among them
            self._interrupted.pop(event.tid, None)
        if event.frame and (lost[0] or lost[POINT]):
            frame = event.frame % BELOW_ALL
            self._renew(event.pid, self._fibers.lose(event.pid, event.tid, frame))

    def _change_stacks(
        self, regions: Regions, decoder: ProbeDecoder, event: Event, pointer: int
    ) -> None:
        """A program sets up a stack, or switches to one, unless the event only reports a loss
        there."""
        changes = not event.faults and event.kind & KIND != LOSS
        if decoder.region:
            event.goroutine = self._running.get(event.tid, 0)
            if changes:
                self._set_up(regions, decoder.region, event)
        elif self._all_attached or not (pointer and self._is_first(event)):
            region = regions.find(event.pid, event.frame % BELOW_ALL, settle=False)
            event.goroutine = region.start if region else self._running_on(event, pointer)
            if not changes:
                return
            if decoder.role == "switch back":
                self._come_back(event)
            elif self._fibers.knows(event.pid, event.value0) or not self._jump(event):
                self._switch(event, own=not event.goroutine)

    def _come_back(self, event: Event) -> None:
        """A thread comes back from a call that it made on another stack."""
        for over in self._fibers.come_back(event.pid, event.tid, event.value0):
            self._renew(event.pid, over)

    def entered_from(self, event: Event) -> Sequence[tuple[int, int]]:
        """Return where the thread of an event left stacks for new ones on which it may still be,
        the last one first, and their numbers; 0 is that of its own."""
        return self._fibers.entered_from(event.pid, event.tid)

    def land(self, event: Event, pointer: int) -> None:
        """A thread continues on a stack that it left at ``pointer``, and leaves what it has called
        on others."""
        for over in self._fibers.come_back(event.pid, event.tid, pointer):
            self._renew(event.pid, over)
        event.goroutine = self._running[event.tid] = self._fibers.running(event.tid)

    def _switch(self, event: Event, *, own: bool) -> None:
        """A thread leaves a stack, which may be its ``own``, for another."""
        pid, tid, to = event.pid, event.tid, event.value0
        kept = not event.value1
        for over in self._fibers.switch(pid, tid, event.frame, to, own=own, kept=kept):
            self._renew(pid, over)

    def _set_up(self, regions: Regions, kind: StackKind, event: Event) -> None:
        """A program sets up a stack; calls on what had its memory are over."""
        region = Region(event.value0, event.value0 + event.value1, kind)
        if kind == "signal stack" and not self._takes_up(regions, region, event):
            return
        around = regions.find(event.pid, event.frame % BELOW_ALL, settle=False)
        for over in regions.learn(event.pid, region):
            self._renew(event.pid, over.start)
        lane = (event.pid, around.start) if around else own_stack(event.pid, event.tid)
        regions.nest(region, lane, event.frame % BELOW_ALL)

    def _takes_up(self, regions: Regions, region: Region, event: Event) -> bool:
        """Whether a thread takes up a stack for its signals. What runs on the one that it had is
        then no handler: GNU Pth and QEMU make coroutines so."""
        former = self._for_signals.pop(event.tid, None)
        taken = not event.value2 & SS_DISABLE
        if former is not None and not (taken and former.start == region.start):
            regions.keep(event.pid, former)
        if taken:
            self._for_signals[event.tid] = region
        return taken


def _take_pointer(event: Event) -> int:
    """Remove the thread pointer from an event that has it, and return it; else 0."""
    if not event.kind & THREAD_POINTER:
        return 0
    pointer, event.goroutine = event.goroutine, 0
    return pointer
