"""What is certain of calls where threads may switch stacks unseen.

What seems to be one stack of a thread may be several, so a call may wait elsewhere that seems to
be left. Another thread may continue there, and make a call of the same frame, which may end where
this one was made: such a return is not that of the call that seems to return. Where coroutines
exchange what is on one stack, so may the same thread, and then each of them may return first.
"""

from __future__ import annotations

from collections import Counter

from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.model import Call, Event


class UnseenStacks:
    """Stacks that may be confused. Of each frame of a process the latest call is known, whichever
    thread has made it, and how many have not returned where each may be the one that does: where
    there are ``exchanges``."""

    def __init__(self, *, exchanges: bool) -> None:
        self._exchanges = exchanges
        self._latest: dict[int, dict[tuple[int, int], Call]] = {}
        self._waiting: dict[int, Counter[tuple[int, int]]] = {}

    def enter(self, call: Call) -> None:
        """A call begins."""
        self._latest.setdefault(call.pid, {})[call.frame, call.probe] = call
        if self._exchanges:
            self._waiting.setdefault(call.pid, Counter())[call.frame, call.probe] += 1

    def leave(self, decoding: ProbeDecoder, event: Event) -> Call | None:
        """Return the call that an event ends which closes one; None where that is not known."""
        frame = event.frame, decoding.entry
        latest = self._latest.get(event.pid, {}).pop(frame, None)
        waiting = self._waiting.get(event.pid)
        if not waiting or not waiting[frame]:
            return latest
        waiting[frame] -= 1
        return None if waiting[frame] else latest

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program."""
        self._latest.pop(pid, None)
        self._waiting.pop(pid, None)
