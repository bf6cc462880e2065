"""Calls that jump to another function, which returns in their place: see `CallMatcher`.

* Where it is known which function that is, and its exits are watched, the call stays open. The
  next entries at its frame are of what it jumped to; when that returns, so does the call, with the
  same result. At most `MOST` calls are open at a frame: of more, each ends as it jumps.
* Where that is not known, the call ends as a *tail* call at once, with the time until then, and so
  do the calls of its frame that had jumped to it.
* The return of a function that is not traced is reported by a *relay*, for all calls whose probes
  on jumps have its number. If such an event comes before that of a call inside, it waits for that.
"""

from __future__ import annotations

from lbtrace.calls.call_stack import NEVER, Stack
from lbtrace.calls.ends import Ends
from lbtrace.calls.payload import Blob
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.model import Event

MOST = 64
"""As many as the kernel hooks with uretprobes (MAX_URETPROBE_DEPTH)."""


class Jumps:
    """Follows calls that jump to other functions."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def has_jumped(self, stack: Stack) -> bool:
        """Return whether the innermost call goes on in what begins at its frame."""
        call = stack.calls[-1]
        return call.depth in stack.jumped and call.start >= stack.lost.at

    def leave(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Let a call go on in the function to which it jumps, or end."""
        calls, frame = stack.calls, event.frame
        if not self._ends.close_others(stack, decoding, event):
            return
        stack.last_return_frame = NEVER
        if decoding.goes_on and not (len(calls) >= MOST and calls[-MOST].frame == frame):
            stack.jumped[calls[-1].depth] = event.probe
            return
        self._end_by_jump(stack, decoding, event)
        while not decoding.goes_on and calls and calls[-1].frame == frame:
            if (number := stack.jumped.get(calls[-1].depth)) is None:
                return
            self._end_by_jump(stack, self._ends.probes[number], event)

    def _end_by_jump(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> None:
        call = stack.calls[-1]
        latest = unseen.leave(decoding, event) if (unseen := self._ends.unseen) else None
        if self._ends.is_of_another(stack, latest):
            self._ends.end(stack, "open")
            return
        if decoding.leads_to and call.depth >= stack.inherited:
            call.duration = event.time - call.start
            call.end_cpu = event.cpu
        call.leads_to = decoding.leads_to
        self._ends.end(stack, "tail")

    def return_jumped(self, stack: Stack, event: Event, blob: Blob) -> None:
        """Let the calls return that have jumped to one which just did."""
        calls = stack.calls
        while calls and calls[-1].frame == event.frame:
            number = stack.jumped.get(calls[-1].depth, -1)
            if number < 0 or self._ends.probes[number].relay:
                break
            self._return_by(stack, self._ends.probes[number], event, blob)
        if stack.relayed:
            relayed, stack.relayed = stack.relayed, []
            for former, bytes_of_it in relayed:
                if former.frame == event.frame:
                    self.relay(stack, self._ends.probes[former.probe], former, bytes_of_it)

    def relay(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Let the calls return that have jumped to what returns here."""
        calls, frame = stack.calls, event.frame
        self._ends.close_below(stack, frame, event.time)
        seen = False
        while calls and calls[-1].frame == frame:
            own = self._ends.probes.relayed(calls[-1], decoding.relay)
            if own is None or (seen and calls[-1].depth not in stack.jumped):
                break
            self._return_by(stack, own, event, blob)
            self.return_jumped(stack, event, blob)
            seen = True
        if calls and calls[-1].frame == frame and self._is_awaited(stack, decoding, frame):
            stack.relayed.append((event, bytes(blob)))

    def _is_awaited(self, stack: Stack, decoding: ProbeDecoder, frame: int) -> bool:
        """Whether a call waits for a relay inside of which others have not returned yet."""
        for call in reversed(stack.calls):
            if call.frame != frame:
                return False
            if self._ends.probes.relayed(call, decoding.relay) is not None:
                return True
        return False

    def _return_by(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Let the innermost call return, which has jumped by a probe of this decoder."""
        latest = unseen.leave(decoding, event) if (unseen := self._ends.unseen) else None
        self._ends.let_return(stack, decoding, event, blob, latest)
