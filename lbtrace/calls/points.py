"""Places inside of functions that the program came by.

The values of a point may be more than one probe reads. Others at the same instruction read the
rest. The kernel runs them all before the thread goes on, in any order, and the point is reported
when all of their events have come. If one has not when the next event of the stack comes (it was
lost, or its condition read what another thread had just changed), the point is reported without
its values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from lbtrace.calls.call_stack import Stack, WaitingPoint
from lbtrace.calls.probe_decoding import Act, ProbeDecoder, ProbeDecoders, pass_over
from lbtrace.calls.visitor import Visitor
from lbtrace.model import Argument, Call, Event
from lbtrace.values.datum import Unreadable

MISSING = Unreadable("not recorded")


class PointMatcher(ABC):
    """Points, and what a matcher counts. See `lbtrace.calls.matcher.CallMatcher`."""

    _probes: ProbeDecoders
    _has_parts: bool

    def __init__(self, visitor: Visitor, max_depth: int | None) -> None:
        self.calls = self.points = 0
        self._visitor = visitor
        self._max_depth = max_depth if max_depth is not None else 1 << 62

    def _pass_by(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        """Report a point; calls whose frames lie below its stack pointer have ended."""
        self._arrive(stack, event)
        self._report(self._make_point(stack, decoding, event, decoding.arguments(event, blob)))

    def _pass_by_part(
        self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
    ) -> None:
        """Report a point when the events of all of its probes have come."""
        waiting = stack.waiting
        if waiting is None or not waiting.expects(event):
            self._report_waiting(stack)
            self._arrive(stack, event)
            point = self._make_point(stack, decoding, event, ())
            waiting = stack.waiting = WaitingPoint(point, decoding.parts)
        waiting.values[event.probe] = decoding.arguments(event, blob)
        if len(waiting.values) == len(waiting.probes):
            self._report_waiting(stack)

    def _act_of(self, acts: dict[str, Act], decoder: ProbeDecoder) -> Act:
        """What to do with the events of a probe, ``acts`` being those of its pairing, by role."""
        if decoder.parts:
            return self._pass_by_part
        act = acts.get(decoder.role, pass_over)
        return self._after_waiting(act) if self._has_parts else act

    def _after_waiting(self, act: Act) -> Act:
        """``act`` for events that show that no more values of a waiting point come."""

        def report_first(
            stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
        ) -> None:
            self._report_waiting(stack)
            act(stack, decoding, event, blob)

        return report_first

    def _report_waiting(self, stack: Stack) -> None:
        """Report the point that waits on a stack, if there is one, with the values that came."""
        waiting, stack.waiting = stack.waiting, None
        if waiting is None:
            return
        values: list[Argument] = []
        for probe in waiting.probes:
            missing = [Argument(name, MISSING) for name in self._probes[probe].parameters]
            values += waiting.values.get(probe, missing)
        waiting.point.probe = waiting.probes[0]
        waiting.point.args = tuple(values)  # type: ignore[assignment]  # `Calls` names them
        self._report(waiting.point)

    def _report(self, point: Call) -> None:
        self.points += 1
        if point.depth < self._max_depth:
            self._visitor.point(point)

    @staticmethod
    def _make_point(
        stack: Stack, decoding: ProbeDecoder, event: Event, values: tuple[Argument, ...]
    ) -> Call:
        """The point of an event, inside of the calls that are open on its stack."""
        return Call(
            decoding.name,
            event.pid,
            event.tid,
            len(stack.calls),
            event.time,
            event.frame,
            event.probe,
            values,  # type: ignore[arg-type]  # `Calls` names them
            end="point",
            lost=stack.lost_count if stack.lost_time == event.time else 0,
            goroutine=event.lane,
            binary=decoding.binary,
            cpu=event.cpu,
        )

    @abstractmethod
    def _arrive(self, stack: Stack, event: Event) -> None:
        """Close the calls that have ended, as an event above their frames shows."""
