"""Leaves out calls: a sink before another one, which gets those that are chosen, all below them,
and those around them.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.model import (
    Aggregates,
    Call,
    Event,
    Fork,
    InheritedCall,
    Loss,
    Plan,
    Summary,
    Thread,
)
from lbtrace.sinks.base import Sink, lane
from lbtrace.sinks.chosen import Identity, identity


class Filter(Struct, frozen=True):
    """Which calls are chosen: those that all of this holds of. None stands for any.

    * ``functions``: names.
    * ``thread``: the number of a thread or goroutine, or the name of a thread.
    * ``begin``, ``end``: ns since the first call; what begins later is nowhere shown.
    * ``calls``: by their identities (`lbtrace.sinks.chosen`).
    """

    functions: frozenset[str] | None = None
    thread: str | None = None
    begin: int = 0
    end: int | None = None
    calls: Set[Identity] | None = None


class _Lane:
    """A thread or goroutine. ``around`` are its open calls that are not chosen, of which the first
    ``shown`` are shown; ``chosen`` is the call in them that is shown with all below it. ``late``
    counts open calls that began too late. ``fork`` is one that is not shown yet; from ``base`` on,
    calls that it continues are chosen."""

    __slots__ = ("around", "base", "chosen", "fork", "late", "shown")

    def __init__(self) -> None:
        self.around: list[Call] = []
        self.shown = 0
        self.chosen: Call | None = None
        self.late = 0
        self.fork: Fork | None = None
        self.base: int | None = None

    @property
    def is_below(self) -> bool:
        """Whether all that happens now is below a call that is chosen."""
        return self.chosen is not None or self.base is not None


class Filtered(Sink):
    """Hands to ``sink`` what a `Filter` chooses. ``calls`` and ``points`` count what that got;
    ``lacks_thread`` is the thread that was chosen, where none is met."""

    name = "filtered"

    def __init__(self, sink: Sink, plan: Plan, chosen: Filter) -> None:
        super().__init__(None, plan, sink.layout)
        self.calls = self.points = 0
        self.lacks_thread = chosen.thread
        self._sink = sink
        self._filter = chosen
        self._first: int | None = None
        self._lanes: dict[tuple[int, int, bool], _Lane] = {}
        self._names: dict[int, str] = {}
        self._untold: dict[int, Thread] = {}

    def grow(self, plan: Plan) -> None:
        self._sink.grow(plan)

    def begin(self) -> None:
        self._sink.begin()

    def thread(self, thread: Thread) -> None:
        self._names[thread.tid] = thread.name
        self._untold[thread.tid] = thread

    def entry(self, call: Call) -> None:
        now = self._lane(call)
        if self._is_late(call.start):
            now.late += 1
        elif now.is_below:
            self._enter(call)
        elif not self._chooses(call):
            now.around.append(call)
        else:
            now.chosen = call
            self._tell_around(now)
            self._enter(call)

    def exit(self, call: Call) -> None:
        now = self._lane(call)
        if now.late:
            now.late -= 1
        elif now.is_below:
            self._sink.exit(call)
            if call is now.chosen:
                now.chosen = None
        elif now.around:
            now.around.pop()
            if now.shown > len(now.around):
                now.shown -= 1
                self._sink.exit(call)
        if not (now.around or now.is_below or now.late or now.fork):
            del self._lanes[self._key(call)]

    def point(self, point: Call) -> None:
        now = self._lane(point)
        if self._is_late(point.start):
            return
        if now.is_below:
            self._pass_by(point)
        elif self._chooses(point):
            self._tell_around(now)
            self._pass_by(point)

    def loss(self, loss: Loss) -> None:
        if self._is_of_thread(loss):
            self._tell_thread(loss.tid)
            self._sink.loss(loss)

    def left(self, event: Event) -> None:
        self._sink.left(event)

    def fork(self, fork: Fork) -> None:
        now = self._lane(fork)
        now.fork = fork
        chosen = [each for each in fork.calls if self._chooses(each)]
        if chosen:
            now.base = chosen[0].depth
            self._tell_around(now)

    def inherited(self, call: InheritedCall) -> None:
        now = self._lane(call)
        if now.fork is None:
            self._sink.inherited(call)
        if now.base is not None and call.depth <= now.base:
            now.base = None
        if not call.depth:
            now.fork = None  # nothing of it is left

    def aggregates(self, aggregates: Aggregates) -> None:
        self._sink.aggregates(aggregates)

    def flush(self) -> None:
        self._sink.flush()

    def end(self, summary: Summary) -> None:
        self._sink.end(replace(summary, calls=self.calls, points=self.points))

    def _key(self, of: Call | Loss | Fork) -> tuple[int, int, bool]:
        return of.pid, lane(of), of.goroutine != 0

    def _lane(self, of: Call | Fork) -> _Lane:
        key = self._key(of)
        found = self._lanes.get(key)
        if found is None:
            found = self._lanes[key] = _Lane()
        return found

    def _is_late(self, time: int) -> bool:
        if self._first is None:
            self._first = time
        return self._filter.end is not None and time - self._first > self._filter.end

    def _chooses(self, call: Call) -> bool:
        """Whether a call is chosen."""
        chosen = self._filter
        if not self._is_of_thread(call):
            return False
        self.lacks_thread = None
        if chosen.functions is not None and call.name not in chosen.functions:
            return False
        if chosen.calls is not None and identity(call) not in chosen.calls:
            return False
        return not chosen.begin or call.start - (self._first or 0) >= chosen.begin

    def _is_of_thread(self, of: Call | Loss) -> bool:
        wanted = self._filter.thread
        if wanted is None or wanted in (str(of.tid), str(of.goroutine)):
            return True
        return wanted == self._names.get(of.tid)

    def _tell_around(self, now: _Lane) -> None:
        """Show the calls around what is shown next."""
        if now.fork is not None:
            self._tell_thread(now.fork.tid)
            self._sink.fork(now.fork)
            now.fork = None
        for call in now.around[now.shown :]:
            self._enter(call)
        now.shown = len(now.around)

    def _enter(self, call: Call) -> None:
        self._tell_thread(call.tid)
        self.calls += 1
        self._sink.entry(call)

    def _pass_by(self, point: Call) -> None:
        self._tell_thread(point.tid)
        self.points += 1
        self._sink.point(point)

    def _tell_thread(self, tid: int) -> None:
        if thread := self._untold.pop(tid, None):
            self._sink.thread(thread)


class Alone(Filtered):
    """Hands on only the calls and points that are chosen themselves."""

    def entry(self, call: Call) -> None:
        if not self._is_late(call.start) and self._chooses(call):
            self._enter(call)

    def exit(self, call: Call) -> None:
        if not self._is_late(call.start) and self._chooses(call):
            self._sink.exit(call)

    def point(self, point: Call) -> None:
        if not self._is_late(point.start) and self._chooses(point):
            self._pass_by(point)

    def fork(self, fork: Fork) -> None:
        """Its calls were those of another process."""

    def inherited(self, call: InheritedCall) -> None:
        """See `fork`."""
