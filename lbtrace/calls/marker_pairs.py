"""Pairs of markers as calls: ``gc__begin`` opens one, and ``gc__end`` closes it.

No frame tells such calls from others, for a marker may stand in any function. Therefore

* a closing marker ends the innermost call of its pair that has the same key. Calls of other markers
  inside it, whose own closing marker did not come, end *open*. Where there is no such call, or
  events were lost since it began, or a traced function that is still open was called inside it,
  the marker is a point, and the call ends *open*: its duration is not known;
* an opening marker is a point as long as no closing marker of its pair is traced, which may be in
  a file that is loaded later;
* an opening marker where the stack pointer is no lower than at a call of the same pair
  ends that one, *open*, as an error may have led past its closing marker. That is unknown
  where interpreted calls, which ``nest``, need no stack, and where the stack pointer is the same
  and both the key and the place in the code are others: one function may begin several calls. At
  the same place, a loop has come round, so that what errors leave open does not pile up;
* a call of markers ends with the traced function inside of which it began, *open*;
* calls of a pair that *crosses* may overlap each other and everything else of their thread. They
  are paired by their keys alone, and reported when they end. The next one of the same key ends a
  former one, *open*.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from lbtrace.calls.call_stack import OpenPair, Stack
from lbtrace.calls.forks import inherit
from lbtrace.calls.loss_times import LossTimes
from lbtrace.calls.points import PointMatcher
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.calls.stack_regions import HIGHEST
from lbtrace.model import Argument, Call, End, Event, InheritedCall
from lbtrace.values.datum import Unreadable

CROSSED = ""
"""Is no pair."""


class PairMatcher(PointMatcher):
    """Calls of markers, and what a matcher does with a stack in any case. See `CallMatcher`."""

    _losses: LossTimes

    def _enter_pair(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        if event.time < decoding.closed_since:
            self._pass_by(stack, decoding, event, blob)
            return
        self._close_below(stack, event.frame, event.time)
        self._end_crossed(stack)
        opened = OpenPair(
            decoding.begin(event, blob), decoding.pair, event.frame, decoding.key(event, blob)
        )
        if not decoding.nests:
            self._end_former(stack, opened)
        call = opened.call
        call.frame = stack.calls[-1].frame if stack.calls else HIGHEST
        stack.open(call)
        stack.pairs.append(opened)
        self.calls += 1
        if call.depth < self._max_depth:
            self._visitor.entry(call)

    def _leave_pair(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        self._close_below(stack, event.frame, event.time)
        self._end_crossed(stack)
        number = _find(stack.pairs, decoding.pair, decoding.key(event, blob))
        if number < 0:
            self._pass_by(stack, decoding, event, blob)
            return
        call = stack.pairs[number].call
        if not self._holds_only_pairs(stack, call.depth):
            stack.pairs[number] = stack.pairs[number]._replace(pair=CROSSED)
            self._pass_by(stack, decoding, event, blob)
            return
        if self._lost_since(stack, call, event.time):
            self._end_down_to(stack, call.depth)
            self._pass_by(stack, decoding, event, blob)
            return
        self._end_down_to(stack, call.depth + 1)
        if call.depth < stack.inherited:
            self._return_inherited(stack, decoding, event, blob)
            return
        stack.calls.pop()
        stack.pairs.pop()
        _finish(call, decoding, event, blob)
        if call.depth < self._max_depth:
            self._visitor.exit(call)

    def _enter_crossing(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        if event.time < decoding.closed_since:
            self._pass_by(stack, decoding, event, blob)
            return
        self._close_below(stack, event.frame, event.time)
        key = decoding.key(event, blob)
        if (former := _find(stack.crossing, decoding.pair, key)) >= 0:
            self._report_crossing(stack, stack.crossing.pop(former).call)
        call = decoding.begin(event, blob)
        call.frame = HIGHEST
        stack.crossing.append(OpenPair(call, decoding.pair, event.frame, key))
        self.calls += 1

    def _leave_crossing(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        self._close_below(stack, event.frame, event.time)
        number = _find(stack.crossing, decoding.pair, decoding.key(event, blob))
        if number < 0:
            self._pass_by(stack, decoding, event, blob)
            return
        call = stack.crossing.pop(number).call
        if self._lost_since(stack, call, event.time):
            self._report_crossing(stack, call)
            self._pass_by(stack, decoding, event, blob)
            return
        _finish(call, decoding, event, blob)
        self._report_crossing(stack, call)

    def _abandon_crossing(self, stack: Stack) -> None:
        for each in stack.crossing:
            self._report_crossing(stack, each.call)
        stack.crossing.clear()

    def _report_crossing(self, stack: Stack, call: Call) -> None:
        """Report a call that may cross others, whole."""
        call.depth = len(stack.calls)
        if isinstance(call, InheritedCall):
            self._report_inherited(call)
        elif call.depth < self._max_depth:
            self._visitor.entry(call)
            self._visitor.exit(call)

    def _arrive(self, stack: Stack, event: Event) -> None:
        self._close_below(stack, event.frame, event.time)
        if stack.pairs:
            self._end_crossed(stack)

    def _lost_since(self, stack: Stack, call: Call, now: int) -> bool:
        """Whether markers may have been missed since a call began."""
        start, lost = call.start, stack.lost
        if start < lost.entry_at or start < lost.return_at:
            return True
        return self._losses.may_hide(start, now)

    def _end_crossed(self, stack: Stack) -> None:
        """End the innermost calls whose closing markers came inside of functions that are over."""
        while stack.pairs and stack.pairs[-1].pair == CROSSED:
            if stack.calls[-1] is not stack.pairs[-1].call:
                return
            self._end(stack, "open")

    def _end_pairs(self, stack: Stack, frame: int) -> None:
        """End the innermost calls of markers that began inside of a call of ``frame``, where
        another one begins."""
        while stack.pairs and stack.calls[-1] is stack.pairs[-1].call:
            if stack.calls[-1].frame != frame:
                return
            self._end(stack, "open")

    def _end_former(self, stack: Stack, opened: OpenPair) -> None:
        """End calls of a pair that began where the stack pointer was no higher than where another
        one is ``opened``, unless that may be inside of them."""
        for each in stack.pairs:
            if each.pair != opened.pair or each.pointer > opened.pointer:
                continue
            if not _may_hold(each, opened):
                if self._holds_only_pairs(stack, each.call.depth):
                    self._end_down_to(stack, each.call.depth)
                return

    @staticmethod
    def _holds_only_pairs(stack: Stack, depth: int) -> bool:
        """Whether all calls from ``depth`` on are those of markers."""
        inside = sum(1 for each in stack.pairs if each.call.depth >= depth)
        return inside == len(stack.calls) - depth

    def _end_down_to(self, stack: Stack, depth: int) -> None:
        while len(stack.calls) > depth:
            self._end(stack, "open")

    def _close_below(self, stack: Stack, frame: int, time: int) -> None:
        """Close the calls whose frames lie below ``frame``, as shown by an event at ``time``."""
        calls = stack.calls
        while calls and calls[-1].frame < frame:
            self._close(stack, time)

    def _close_left(self, stack: Stack, frame: int, event: Event) -> None:
        """Close the same calls where nothing else is reported of ``event``."""
        self._close_below(stack, frame, event.time)
        self._visitor.left(event)

    @abstractmethod
    def _close(self, stack: Stack, time: int) -> None:
        """Close the innermost call, which did not return, as shown by an event at ``time``."""

    def _leave_unsure(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        """Let the innermost call return, which was inherited, unless this may be the return of
        another one."""
        start, lost = stack.calls[-1].start, stack.lost
        both_lost = start < lost.entry_at and start < lost.return_at
        if both_lost or stack.forked_thread is None:
            # Or that of a later call that was not seen at all, or of another process's, which had
            # this number before and did not end visibly.
            self._end(stack, "open")
        else:
            self._return_inherited(stack, decoding, event, blob)

    def _return_inherited(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        assert stack.forked_thread is not None
        call = stack.calls[-1] = inherit(stack.calls[-1], stack.forked_thread)
        _finish(call, decoding, event, blob)
        self._end(stack, "returned")

    def _report_inherited(self, call: Call) -> None:
        if call.depth < self._max_depth and isinstance(call, InheritedCall):
            self._visitor.inherited(call)

    def _end(self, stack: Stack, end: End) -> None:
        call = stack.calls.pop()
        stack.unhook(call, self._probes[call.probe].by_uretprobe)
        if call.depth < stack.inherited and stack.forked_thread is not None:
            stack.inherited = call.depth
            if not isinstance(call, InheritedCall):
                call = inherit(call, stack.forked_thread)
            call.end = end
            self._report_inherited(call)
            return
        call.end = end
        if call.depth < self._max_depth:
            self._visitor.exit(call)


def _finish(call: Call, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview) -> None:
    """Let a call return with its closing marker."""
    call.result = decoding.result(event, blob)
    if isinstance(call, InheritedCall):
        call.until = event.time
    else:
        call.duration = event.time - call.start
    call.end_cpu = event.cpu
    call.end = "returned"


def _may_hold(former: OpenPair, opened: OpenPair) -> bool:
    """Whether the same frame may have begun one call inside of another: they differ by their keys,
    which were read, and by the markers' places."""
    if former.pointer != opened.pointer or former.call.probe == opened.call.probe:
        return False
    values = [each.value for each in (*former.key, *opened.key)]
    return former.key != opened.key and not any(isinstance(v, Unreadable) for v in values)


def _find(pairs: Sequence[OpenPair], pair: str, key: tuple[Argument, ...]) -> int:
    """The position of the innermost call of a pair with a key; -1 where there is none. What could
    not be read is like nothing else."""
    if any(isinstance(each.value, Unreadable) for each in key):
        return -1
    for number in range(len(pairs) - 1, -1, -1):
        each = pairs[number]
        if each.pair == pair and each.key == key:
            return number
    return -1
