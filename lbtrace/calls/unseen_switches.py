"""What is certain of calls where threads may switch stacks unseen.

What seems to be one stack of a thread may be several, so a call may wait elsewhere that seems to
be left. Another thread may continue there, and make a call of the same frame, which may end where
this one was made: such a return is not that of the call that seems to return.
"""

from __future__ import annotations

from collections.abc import Callable

from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.model import Call, Event, UnseenSwitches


class UnseenStacks:
    """The processes whose stacks may be confused, with ``switches`` that are not seen; ``begun``
    says of a process whether its program was seen to begin. Of each frame of theirs the latest call
    is known, whichever thread has made it."""

    def __init__(self, switches: UnseenSwitches, begun: Callable[[int], bool]) -> None:
        self._any = switches == "any"
        self._begun = begun
        self._latest: dict[int, dict[tuple[int, int], Call]] = {}

    def has(self, pid: int) -> bool:
        """Return whether what seems to be one stack of a process may be several."""
        return self._any or not self._begun(pid)

    def enter(self, call: Call) -> None:
        """A call begins."""
        if self.has(call.pid):
            self._latest.setdefault(call.pid, {})[call.frame, call.probe] = call

    def leave(self, decoding: ProbeDecoder, event: Event) -> Call | None:
        """Return the call that an event ends which closes one; None where that is not known."""
        return self._latest.get(event.pid, {}).pop((event.frame, decoding.entry), None)

    def forget(self, pid: int) -> None:
        """A process has ended, or executes another program."""
        self._latest.pop(pid, None)
