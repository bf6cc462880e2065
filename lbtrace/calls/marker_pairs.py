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
* a call of markers ends with the traced function inside of which it began, *open*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbtrace.calls.call_stack import CROSSED, OpenPair, Stack
from lbtrace.calls.ends import Ends, finish
from lbtrace.calls.payload import Blob
from lbtrace.calls.points import PointAssembler
from lbtrace.calls.probe_decoding import Act, ProbeDecoder
from lbtrace.calls.stack_regions import HIGHEST
from lbtrace.model import Argument, Call, Event
from lbtrace.values.datum import Unreadable


class Pairs:
    """Pairs calls by pair and key, last in first out on their stack."""

    def __init__(self, ends: Ends, points: PointAssembler) -> None:
        self._ends = ends
        self._points = points
        self.acts: Mapping[str, Act] = {
            "opens": self._enter,
            "closes": self._leave,
            "point": points.pass_by,
        }

    def _enter(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        if event.time < decoding.closed_since:
            self._points.pass_by(stack, decoding, event, blob)
            return
        self._ends.close_below(stack, event.frame, event.time)
        self._ends.end_crossed(stack)
        opened = OpenPair(
            decoding.begin(event, blob), decoding.pair, event.frame, decoding.key(event, blob)
        )
        if not decoding.nests:
            self._end_former(stack, opened)
        call = opened.call
        call.frame = stack.calls[-1].frame if stack.calls else HIGHEST
        stack.open(call)
        stack.pairs.append(opened)
        self._ends.calls += 1
        if call.depth < self._ends.max_depth:
            self._ends.visitor.entry(call)

    def _leave(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        self._ends.close_below(stack, event.frame, event.time)
        self._ends.end_crossed(stack)
        number = _find(stack.pairs, decoding.pair, decoding.key(event, blob))
        if number < 0:
            self._points.pass_by(stack, decoding, event, blob)
            return
        call = stack.pairs[number].call
        if not _holds_only_pairs(stack, call.depth):
            stack.pairs[number] = stack.pairs[number]._replace(pair=CROSSED)
            self._points.pass_by(stack, decoding, event, blob)
            return
        if _lost_since(self._ends, stack, call, event.time):
            self._ends.end_down_to(stack, call.depth)
            self._points.pass_by(stack, decoding, event, blob)
            return
        self._ends.end_down_to(stack, call.depth + 1)
        if call.depth < stack.inherited:
            self._ends.let_return_inherited(stack, decoding, event, blob)
            return
        stack.calls.pop()
        stack.pairs.pop()
        finish(call, decoding, event, blob)
        if call.depth < self._ends.max_depth:
            self._ends.visitor.exit(call)

    def _end_former(self, stack: Stack, opened: OpenPair) -> None:
        """End calls of a pair that began where the stack pointer was no higher than where another
        one is ``opened``, unless that may be inside of them."""
        for each in stack.pairs:
            if each.pair != opened.pair or each.pointer > opened.pointer:
                continue
            if not _may_hold(each, opened):
                if _holds_only_pairs(stack, each.call.depth):
                    self._ends.end_down_to(stack, each.call.depth)
                return


def end_pairs(ends: Ends, stack: Stack, frame: int) -> None:
    """End the innermost calls of markers that began inside of a call of ``frame``, where
    another one begins."""
    while stack.pairs and stack.calls[-1] is stack.pairs[-1].call:
        if stack.calls[-1].frame != frame:
            return
        ends.end(stack, "open")


def _lost_since(ends: Ends, stack: Stack, call: Call, now: int) -> bool:
    """Whether markers may have been missed since a call began."""
    start, lost = call.start, stack.lost
    if start < lost.entry_at or start < lost.return_at:
        return True
    return ends.losses.may_hide(start, now)


def _holds_only_pairs(stack: Stack, depth: int) -> bool:
    """Whether all calls from ``depth`` on are those of markers."""
    inside = sum(1 for each in stack.pairs if each.call.depth >= depth)
    return inside == len(stack.calls) - depth


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
