"""The open calls of a stack."""

from __future__ import annotations

from typing import NamedTuple

from lbtrace.calls.loss_times import LastLosses
from lbtrace.model import Argument, Call, Callers, Datum, Event, Thread

NEVER = -1 << 65
"""No frame: lower than any."""

BEYOND = 1 << 65
"""No frame: higher than any."""


CROSSED = ""
"""Is no pair."""


class OpenPair(NamedTuple):
    """A call that a marker opened: where the stack pointer was, and its key."""

    call: Call
    pair: str
    pointer: int
    key: tuple[Argument, ...]


class WaitingPoint:
    """A point of which some values have not come yet: the ``values`` that each of its ``probes``
    has read, by the probe's number."""

    __slots__ = ("point", "probes", "values")

    def __init__(self, point: Call, probes: range) -> None:
        self.point = point
        self.probes = probes
        self.values: dict[int, tuple[Argument, ...]] = {}

    def expects(self, event: Event) -> bool:
        """Return whether an event brings values of the point."""
        own = event.probe in self.probes and event.frame == self.point.frame
        return own and event.probe not in self.values


class Panic(NamedTuple):
    """A panic: when it began, and in which ``frame``. ``running`` is the frame whose deferred call
    panics while another panic is on its way: that one has left those below; 0 where it is not
    known."""

    frame: int
    time: int
    value: Datum
    running: int = 0

    def passes(self, call: Call) -> bool:
        """Return whether the call was open when it began."""
        return call.frame >= self.frame and call.start <= self.time


class Stack:
    """The open calls of a stack; ``uretprobe_count`` hits of them were hooked by a uretprobe.

    ``last_return_frame`` is the frame of the return that was the last event. ``lost`` are the
    losses that concern the stack, perhaps with others; ``lost_count`` events of its own were lost
    just before its event at ``lost_time``. ``repeat_hits`` counts, by frame and probe, the further
    hits of entry probes within calls that were hooked as well. ``unhooked`` are the depths of
    calls that should have been hooked and are not. ``pairs`` are those of the calls that markers
    opened.
    ``jumped`` are the probes on jumps by which open calls went on to other functions, by the depths
    of the calls. ``relayed`` is the event of a return that calls inside of it have to precede.
    ``panics`` are those on their way, the earliest first.
    ``waiting`` is the point of which not all values have come yet. The first ``inherited`` of
    ``calls`` were made by another process before it forked this one, of which ``forked_thread`` is
    the first thread. ``callers`` were sent with the event that comes now. Where it may be several
    stacks, and so is not ``exact``, a call that seems to be left may wait on another one.
    """

    __slots__ = (
        *("_echo", "callers", "calls", "exact", "forked_thread", "inherited", "jumped"),
        *("last_return_frame", "lost", "panics"),
        *(
            "lost_count",
            "lost_time",
            "pairs",
            "pid",
            "relayed",
            "repeat_hits",
            "unhooked",
            "uretprobe_count",
            "waiting",
        ),
    )

    def __init__(self, pid: int, lost: LastLosses) -> None:
        self.pid = pid
        self.exact = True
        self.calls: list[Call] = []
        self.uretprobe_count = 0
        self.last_return_frame = NEVER
        self.lost = lost
        self.lost_count = 0
        self.lost_time = -1
        self.repeat_hits: dict[tuple[int, int], int] = {}
        self.unhooked: set[int] = set()
        self._echo = (NEVER, 0, 0)
        self.pairs: list[OpenPair] = []
        self.waiting: WaitingPoint | None = None
        self.inherited = 0
        self.forked_thread: Thread | None = None
        self.jumped: dict[int, int] = {}
        self.relayed: list[tuple[Event, bytes]] = []
        self.panics: list[Panic] = []
        self.callers: Callers | None = None

    def open(self, call: Call) -> Call:
        """Add a call that begins."""
        call.depth = len(self.calls)
        if self.calls:
            call.parent = self.calls[-1]
        if self.lost_time == call.start:
            call.lost = self.lost_count
        if self.callers is not None:
            call.callers, self.callers = self.callers, None
        self.calls.append(call)
        return call

    def copy(self) -> Stack:
        """Return a stack with the same calls, for what continues them elsewhere."""
        copied = Stack(self.pid, self.lost.copy())
        copied.exact = self.exact
        copied.calls = self.calls.copy()
        copied.uretprobe_count = self.uretprobe_count
        copied.last_return_frame = self.last_return_frame
        copied.repeat_hits = self.repeat_hits.copy()
        copied.unhooked = self.unhooked.copy()
        copied._echo = self._echo
        copied.pairs = self.pairs.copy()
        copied.jumped = self.jumped.copy()
        return copied

    def unhook(self, call: Call, hooked: bool) -> None:
        """Record that a call has ended; ``hooked`` says whether its return should have been
        hooked."""
        if self.pairs and self.pairs[-1].call is call:
            self.pairs.pop()
        if self.jumped:
            self.jumped.pop(call.depth, None)
        if self.unhooked and call.depth in self.unhooked:
            self.unhooked.discard(call.depth)
            return
        self.uretprobe_count -= hooked
        if self.repeat_hits and (rounds := self.repeat_hits.pop((call.frame, call.probe), 0)):
            self.uretprobe_count -= rounds
            self._echo = (call.frame, call.probe, rounds)

    @property
    def is_plain(self) -> bool:
        """Whether hits and calls of a uretprobe are one and the same, and no point waits."""
        apart = self.unhooked or self.repeat_hits or self._echo[2]
        return not (apart or self.waiting or self.relayed)

    def is_echo(self, frame: int, entry: int) -> bool:
        """Return whether a return is a further one of the call that returned just now."""
        last, probe, left = self._echo
        if not left or (last, probe) != (frame, entry) or self.last_return_frame != frame:
            return False
        self._echo = (last, probe, left - 1)
        return True
