"""Calls of functions, matched by frame: see `lbtrace.calls.matcher`."""

from __future__ import annotations

from collections.abc import Mapping

from lbtrace.calls.call_stack import NEVER, Stack
from lbtrace.calls.ends import MAX_RETURN_DEPTH, Ends
from lbtrace.calls.go_panics import read, which
from lbtrace.calls.marker_pairs import end_pairs
from lbtrace.calls.payload import Blob
from lbtrace.calls.points import PointAssembler
from lbtrace.calls.probe_decoding import Act, ProbeDecoder
from lbtrace.calls.tail_calls import Jumps
from lbtrace.model import UNHOOKED, Event


class Frames:
    """Pairs calls by their frames. ``return_depth`` counts those whose return the kernel could not
    deliver."""

    def __init__(self, ends: Ends, points: PointAssembler) -> None:
        self.return_depth = 0
        self._ends = ends
        self._jumps = jumps = Jumps(ends)
        self.acts: Mapping[str, Act] = {
            "opens": self._enter,
            "closes": self._leave,
            "tail": jumps.leave,
            "tail return": jumps.relay,
            "landing": self._land,
            "crash": self._land,
            "panic": self._panic,
            "point": points.pass_by,
            "blocked": points.pass_inside,
        }

    def _enter(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        ends, calls, frame = self._ends, stack.calls, event.frame
        # A call of the frame that just returned would have returned with it.
        over = frame if frame > stack.last_return_frame else stack.last_return_frame + 1
        if calls and calls[-1].frame <= over:
            ends.close_below(stack, over, event.time)
            if stack.pairs:
                end_pairs(ends, stack, frame)
            if calls and calls[-1].frame == frame:
                jumped = bool(stack.jumped) and self._jumps.has_jumped(stack)
                if (
                    decoding.loops_to_entry
                    and not jumped
                    and self._goes_round(stack, decoding, event)
                ):
                    return
                before = ends.probes[calls[-1].probe]
                unhooked = len(calls) - 1 in stack.unhooked
                again = before.same(decoding) and not self._went_on(stack)
                stays = jumped or before.by_uretprobe or before.may_jump
                if not stays or unhooked or (again and not jumped):
                    ends.close(stack, event.time)
        stack.last_return_frame = NEVER
        depth = len(calls)
        call = stack.open(decoding.begin(event, blob))
        ends.calls += 1
        if ends.unseen:
            ends.unseen.enter(call)
        if decoding.by_uretprobe and event.kind & UNHOOKED:
            stack.unhooked.add(depth)
        elif decoding.by_uretprobe:
            stack.uretprobe_count += 1
            self.return_depth += stack.uretprobe_count > MAX_RETURN_DEPTH
        if depth < ends.max_depth:
            ends.visitor.entry(call)

    def _went_on(self, stack: Stack) -> bool:
        """Whether the innermost call, whose function starts again at the same frame, did so
        by a jump, so that both will return; else it has ended."""
        call = stack.calls[-1]
        lost = call.start < stack.lost.at or stack.uretprobe_count > MAX_RETURN_DEPTH
        return self._ends.probes[call.probe].may_jump and not lost

    def _goes_round(self, stack: Stack, decoding: ProbeDecoder, event: Event) -> bool:
        """Whether a function that jumps back to its first instruction did so in the
        innermost call, which continues."""
        call = stack.calls[-1]
        if not decoding.same(self._ends.probes[call.probe]) or call.start < stack.lost.return_at:
            return False
        # Or it has returned, and this is another.
        if self._ends.losses.may_hide(call.start, event.time):
            stack.lost.unsure_before = max(stack.lost.unsure_before, call.start + 1)
        if not decoding.by_uretprobe:
            return decoding.by_sites
        if call.depth in stack.unhooked or event.kind & UNHOOKED:
            return True
        if stack.uretprobe_count > MAX_RETURN_DEPTH:
            return False
        if stack.uretprobe_count < MAX_RETURN_DEPTH:
            stack.uretprobe_count += 1
            stack.repeat_hits[call.frame, call.probe] = (
                stack.repeat_hits.get((call.frame, call.probe), 0) + 1
            )
        return True

    def _leave(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        ends = self._ends
        latest = ends.unseen.leave(decoding, event) if ends.unseen else None
        if decoding.loops_to_entry and stack.is_echo(event.frame, decoding.entry):
            return
        if ends.close_others(stack, decoding, event):
            ends.let_return(stack, decoding, event, blob, latest)
        if stack.jumped or stack.relayed:
            self._jumps.return_jumped(stack, event, blob)

    def _land(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Unwind the calls at the event's frame and below: the program continues there, and they
        have taken until then."""
        ends, calls = self._ends, stack.calls
        thrown = decoding.thrown(event, blob) if calls and calls[-1].frame <= event.frame else None
        while calls and calls[-1].frame <= event.frame:
            call = calls[-1]
            if call.depth >= stack.inherited and ends.would_have_returned(stack, event.time):
                call.duration, call.end_cpu = event.time - call.start, event.cpu
                call.exception = thrown or which(stack.panics, call)
            ends.close(stack, event.time)
        if stack.panics:
            stack.panics = [each for each in stack.panics if each.frame > event.frame]
        ends.visitor.left(event)

    def _panic(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Keep what the calls of the event's frame and above show if this panic leaves them."""
        stack.panics.append(read(decoding, event, blob))
