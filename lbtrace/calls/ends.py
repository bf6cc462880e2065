"""How the open calls of a stack end, however they were paired: see `CallMatcher`."""

from __future__ import annotations

from lbtrace.calls.call_stack import CROSSED, Stack
from lbtrace.calls.forks import inherit
from lbtrace.calls.loss_times import LossTimes
from lbtrace.calls.payload import Blob
from lbtrace.calls.probe_decoding import ProbeDecoder, ProbeDecoders
from lbtrace.calls.unseen_switches import UnseenStacks
from lbtrace.calls.visitor import Visitor
from lbtrace.model import Call, End, Event, InheritedCall

MAX_RETURN_DEPTH = 64
"""Nested uretprobes of a task: MAX_URETPROBE_DEPTH in ``include/linux/uprobes.h``."""


class Ends:
    """Ends calls, and reports them to a ``visitor`` that wants those less than ``max_depth`` deep.

    ``calls`` counts those that began, ``returns_without_entry`` returns whose call is not known.
    ``losses`` are those of the whole trace; ``unseen`` is None where switches of stacks are seen.
    """

    def __init__(
        self,
        probes: ProbeDecoders,
        visitor: Visitor,
        max_depth: int | None,
        losses: LossTimes,
        unseen: UnseenStacks | None,
    ) -> None:
        self.calls = self.returns_without_entry = 0
        self.probes = probes
        self.visitor = visitor
        self.max_depth = max_depth if max_depth is not None else 1 << 62
        self.losses = losses
        self.unseen = unseen
        self._executed: dict[int, int] = {}

    def arrive(self, stack: Stack, event: Event) -> None:
        """Close the calls that have ended, as an event above their frames shows."""
        self.close_below(stack, event.frame, event.time)
        if stack.pairs:
            self.end_crossed(stack)

    def close_below(self, stack: Stack, frame: int, time: int) -> None:
        """Close the calls whose frames lie below ``frame``, as shown by an event at ``time``."""
        calls = stack.calls
        while calls and calls[-1].frame < frame:
            self.close(stack, time)

    def close_left(self, stack: Stack, frame: int, event: Event) -> None:
        """Close the same calls where nothing else is reported of ``event``."""
        self.close_below(stack, frame, event.time)
        self.visitor.left(event)

    def close_others(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Close the calls that have ended when a closing probe is hit, so that its call is
        innermost; false if that call is unknown."""
        calls, frame = stack.calls, event.frame
        if calls and calls[-1].frame == frame and calls[-1].probe == decoding.entry:
            return True
        self.close_below(stack, frame, event.time)
        if self._close_above(stack, decoding, event):
            return True
        self.visitor.left(event)
        if self._executed.pop(event.tid, -1) != decoding.entry:
            self.returns_without_entry += 1
        return False

    def _close_above(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Close the calls above the innermost one of the event's frame and function,
        if there is such a call."""
        calls, frame = stack.calls, event.frame
        for index in range(len(calls) - 1, -1, -1):
            call = calls[index]
            if call.frame != frame:
                return False
            if self.probes[call.probe].same(decoding):
                while len(calls) > index + 1:
                    self.close(stack, event.time)
                return True
        return False

    def close(self, stack: Stack, time: int) -> None:
        """Close the innermost call, which did not return, as shown by an event at ``time``."""
        self.end(stack, "unwound" if self.would_have_returned(stack, time) else "open")

    def would_have_returned(self, stack: Stack, time: int) -> bool:
        """Return whether a return of the innermost call would have been seen until ``time``."""
        call = stack.calls[-1]
        decoding = self.probes[call.probe]
        if call.depth in stack.unhooked or not decoding.returns:
            return False
        if self._may_be_lost(stack, time) or not stack.exact or self.unseen:
            return False
        return not decoding.by_uretprobe or stack.uretprobe_count <= MAX_RETURN_DEPTH

    def _may_be_lost(self, stack: Stack, time: int) -> bool:
        """Return whether the event of a return of the innermost call until ``time`` may be lost."""
        start = stack.calls[-1].start
        return start < stack.lost.at or self.losses.may_hide(start, time)

    def end_crossed(self, stack: Stack) -> None:
        """End the innermost calls whose closing markers came inside of functions that are over."""
        while stack.pairs and stack.pairs[-1].pair == CROSSED:
            if stack.calls[-1] is not stack.pairs[-1].call:
                return
            self.end(stack, "open")

    def end_down_to(self, stack: Stack, depth: int) -> None:
        """End the calls from ``depth`` on, whose ends will not be seen."""
        while len(stack.calls) > depth:
            self.end(stack, "open")

    def end(self, stack: Stack, end: End) -> None:
        """End the innermost call."""
        call = stack.calls.pop()
        stack.unhook(call, self.probes[call.probe].by_uretprobe)
        if call.depth < stack.inherited and stack.forked_thread is not None:
            stack.inherited = call.depth
            if not isinstance(call, InheritedCall):
                call = inherit(call, stack.forked_thread)
            call.end = end
            self.report_inherited(call)
            return
        call.end = end
        if call.depth < self.max_depth:
            self.visitor.exit(call)

    def let_return(
        self,
        stack: Stack,
        decoding: ProbeDecoder,
        event: Event,
        blob: Blob,
        latest: Call | None,
    ) -> None:
        """Let the innermost call return; the ``latest`` one of its frame is known where stacks
        may be confused."""
        stack.last_return_frame = event.frame
        if self.is_of_another(stack, latest):
            self.end(stack, "open")
            return
        if stack.calls[-1].start < stack.lost.unsure_before:
            self._let_return_unsure(stack, decoding, event, blob)
            return
        call = stack.calls.pop()
        stack.unhook(call, decoding.by_uretprobe)
        call.result = decoding.result(event, blob)
        call.duration = event.time - call.start
        call.end_cpu = event.cpu
        call.end = "returned"
        if call.depth < self.max_depth:
            self.visitor.exit(call)

    def executes(self, call: Call) -> bool:
        """Return whether a call is the system call that executes a program."""
        return self.probes[call.probe].in_kernel and call.name.startswith("execve")

    def let_execve_return(self, stack: Stack, tid: int, time: int, cpu: int | None) -> None:
        """Let the innermost call return, which has executed a program. What reports its return
        comes later, when its stack is gone, and names the thread ``tid``."""
        call = stack.calls[-1]
        if not self.probes[call.probe].returns or self._may_be_lost(stack, time):
            return
        self._executed[tid] = call.probe
        call.result, call.duration, call.end_cpu = 0, time - call.start, cpu
        self.end(stack, "returned")

    def is_of_another(self, stack: Stack, latest: Call | None) -> bool:
        """Return whether the innermost call may not be what ends, where the ``latest`` call of its
        frame does."""
        return self.unseen is not None and stack.calls[-1] is not latest

    def _let_return_unsure(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob
    ) -> None:
        """Let the innermost call return, which was inherited, unless this may be the return of
        another one."""
        start, lost = stack.calls[-1].start, stack.lost
        both_lost = start < lost.entry_at and start < lost.return_at
        if both_lost or stack.calls[-1].depth >= stack.inherited:
            # Or that of a later call that was not seen at all, or of another process's, which had
            # this number before and did not end visibly.
            self.end(stack, "open")
        else:
            self.let_return_inherited(stack, decoding, event, blob)

    def let_return_inherited(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob
    ) -> None:
        """Let the innermost call return, which another process has made."""
        assert stack.forked_thread is not None
        call = stack.calls[-1] = inherit(stack.calls[-1], stack.forked_thread)
        finish(call, decoding, event, blob)
        self.end(stack, "returned")

    def report_inherited(self, call: Call) -> None:
        """Report the end of a call that another process has made."""
        if call.depth < self.max_depth and isinstance(call, InheritedCall):
            self.visitor.inherited(call)


def finish(call: Call, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
    """Let a call return with its closing marker."""
    call.result = decoding.result(event, blob)
    if isinstance(call, InheritedCall):
        call.until = event.time
    else:
        call.duration = event.time - call.start
    call.end_cpu = event.cpu
    call.end = "returned"
