"""How long calls did not run: a visitor before another one, to which it hands what it gets.

Of each thread the kernel reports how long it has been blocked and runnable so far, before the
events of hits between which that has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbtrace.calls.visitor import Visitor
from lbtrace.model import Call, Event

if TYPE_CHECKING:
    from lbtrace.model import Fork, InheritedCall, Loss, Thread

NOT_KNOWN = (1 << 64) - 1
"""What the kernel reports of a thread for which it had no room."""


class OffCpuTimes:
    """Splits the durations of calls. Those of a goroutine, or on a stack that the program made, may
    go on in another thread, while others run in the first: of these it is not known."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._threads: dict[int, tuple[int, int]] = {}
        self._begun: dict[int, tuple[int, int]] = {}

    def note(self, event: Event) -> None:
        """A thread has not been running so long until now."""
        self._threads[event.tid] = event.value0, event.value1

    def entry(self, call: Call) -> None:
        """See `Visitor`, as all that follows."""
        if not call.goroutine:
            self._begun[id(call)] = self._threads.get(call.tid, (NOT_KNOWN, 0))
        self._visitor.entry(call)

    def exit(self, call: Call) -> None:
        begun = self._begun.pop(id(call), None)
        now = self._threads.get(call.tid)
        if begun and now and call.duration is not None and NOT_KNOWN not in (begun[0], now[0]):
            call.blocked, call.runnable = now[0] - begun[0], now[1] - begun[1]
        self._visitor.exit(call)

    def thread(self, thread: Thread) -> None:
        self._visitor.thread(thread)

    def left(self, event: Event) -> None:
        self._visitor.left(event)

    def point(self, point: Call) -> None:
        self._visitor.point(point)

    def loss(self, loss: Loss) -> None:
        self._visitor.loss(loss)

    def fork(self, fork: Fork) -> None:
        self._visitor.fork(fork)

    def inherited(self, call: InheritedCall) -> None:
        self._visitor.inherited(call)
