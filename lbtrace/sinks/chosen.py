"""Finds out of which calls a condition holds, before they are shown: what it compares may be known
only at their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lbtrace.model import Call, Plan, Summary, Thread
from lbtrace.sinks.base import Sink

if TYPE_CHECKING:
    from lbtrace.expressions.recorded import RecordedTest

Identity: TypeAlias = "tuple[int, int, int, int]"


def identity(call: Call) -> Identity:
    """Return what tells a call or point from all others of a capture."""
    return call.tid, call.start, call.frame, call.probe


class Chosen(Sink):
    """Writes nothing. ``calls`` are those of ``functions``, None for all, of which ``test``
    holds."""

    name = "chosen"

    def __init__(
        self, plan: Plan, test: RecordedTest, functions: frozenset[str] | None = None
    ) -> None:
        super().__init__(None, plan)
        self._functions = functions
        self.calls: set[Identity] = set()
        self._test = test
        self._names: dict[int, str] = {}

    def thread(self, thread: Thread) -> None:
        self._names[thread.tid] = thread.name

    def exit(self, call: Call) -> None:
        if self._functions is not None and call.name not in self._functions:
            return
        call.thread_name = self._names.get(call.tid, "")
        if self._test.holds(call, self._plan):
            self.calls.add(identity(call))

    def end(self, summary: Summary) -> None:
        self._test.check()
