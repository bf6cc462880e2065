"""Places each event on a lane: one of the stacks that its thread may run on.

The kernel says with each event whether its thread is on its own stack, or else in which mapping the
stack lies. Of stacks that share a mapping, those that the program was seen to set up are known.
"""

from __future__ import annotations

from collections.abc import Callable

from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.calls.stack_regions import HIGHEST, Region, Regions, own_stack
from lbtrace.model import KIND, LOSS, ON_ALTSTACK, Event, lost_events

BELOW_ALL = 1 << 64
"""Offset that sorts frames of a signal stack below all others."""


class Lanes:
    """Places events on stacks; ``renew`` is called with a process and the number of a stack
    of it that is new, so that the one that had that number has ended. With ``stacks``, probes
    report where programs set some up."""

    def __init__(self, renew: Callable[[int, int], None], *, stacks: bool) -> None:
        self.has_stacks = stacks
        self._renew = renew
        self._regions = Regions() if stacks else None
        self._running: dict[int, int] = {}
        self._interrupted: dict[int, int] = {}

    def forget(self, pid: int) -> None:
        """Forget the stacks of a process that has ended."""
        if self._regions is not None:
            self._regions.forget(pid)

    def execute(self, pid: int) -> None:
        """Forget the stacks of a process that has executed another program just now."""
        self._running.pop(pid, None)
        self._interrupted.pop(pid, None)
        if self._regions is not None:
            self._regions.find(pid, 0)  # none of them belongs to the new one
            self.forget(pid)

    def fork(self, parent: int, tid: int, child: int) -> None:
        """A thread of ``parent`` forks ``child``, whose first thread continues on a copy of the
        same stack."""
        if self._regions is not None:
            self._regions.fork(parent, tid, child)
            self._running[child] = self._running.get(tid, 0)
            self._interrupted.pop(child, None)
            if tid in self._interrupted:
                self._interrupted[child] = self._interrupted[tid]

    def is_exact(self, pid: int, lane: int) -> bool:
        """Return whether a lane is one stack: a mapping may hold several."""
        return not lane or (self._regions is not None and self._regions.has(pid, lane))

    def place(self, decoder: ProbeDecoder, event: Event) -> bool:
        """Make the number of its stack part of an event; false if the event only reports a new
        stack."""
        if event.kind & ON_ALTSTACK and not decoder.stacks:
            event.frame -= BELOW_ALL
        if event.kind & KIND == LOSS and lost_events(event)[0]:  # a signal may be among them
            self._interrupted.pop(event.tid, None)
        if self._regions is None or (event.lane and decoder.finds_goroutines):
            return not decoder.stacks
        if decoder.stacks:
            self._set_up(self._regions, decoder, event)
            return False
        self._find_lane(self._regions, event)
        return True

    def interrupt(self, event: Event) -> None:
        """A signal interrupts a thread where an event says, and is handled on another stack."""
        self.locate(event)
        self._interrupted[event.tid] = event.lane

    def locate(self, event: Event) -> None:
        """Make the number of the stack part of an event on which its thread is where a signal
        interrupts it, or it forks: it runs there until another event says otherwise."""
        if event.kind & ON_ALTSTACK:
            event.frame -= BELOW_ALL
        if self._regions is not None:
            self._find_lane(self._regions, event)

    def _find_lane(self, regions: Regions, event: Event) -> None:
        if event.frame < 0:  # on a stack for signals
            running = self._running.get(event.tid, 0)
            event.lane = self._interrupted.get(event.tid, running)
            return
        region = _region_of(regions, event)
        event.lane = self._running[event.tid] = region.start if region else event.lane
        if regions.nested:
            for over in regions.left(_lane_of(event), event.frame):
                self._renew(event.pid, over.start)

    def own_stack(self, event: Event) -> tuple[int, int] | None:
        """Return the lowest and the highest frame around that of an event for which `place` need
        not be asked; None where it has to be."""
        regions = self._regions
        if regions is None:
            return 0, HIGHEST
        if event.lane or any(regions.nested.values()):
            return None
        frames = regions.gap(event.pid, event.frame)
        if frames is not None:
            self._running[event.tid] = 0
        return frames

    def _set_up(self, regions: Regions, decoder: ProbeDecoder, event: Event) -> None:
        """A program sets up a stack, unless the event only reports a loss there; calls on what had
        its memory are over."""
        if not decoder.region or event.faults or event.kind & KIND == LOSS:
            return
        start = event.value0 - (event.value1 if decoder.role == "stack below" else 0)
        region = Region(start, start + event.value1)
        around = _region_of(regions, event, settle=False)
        event.lane = around.start if around else event.lane
        for over in regions.learn(event.pid, region):
            self._renew(event.pid, over.start)
        regions.nest(region, _lane_of(event), event.frame)


def _region_of(regions: Regions, event: Event, *, settle: bool = True) -> Region | None:
    """The region that an event is in; none where its memory has become the thread's own stack."""
    region = regions.find(event.pid, event.frame, settle=settle)
    if region and not event.lane:
        own = own_stack(event.pid, event.tid)
        return region if regions.is_nested(own, region) else None
    return region


def _lane_of(event: Event) -> tuple[int, int]:
    if event.lane:
        return event.pid, event.lane
    return own_stack(event.pid, event.tid)
