"""Places inside of functions that the program came by.

The values of a point may be more than one probe reads. Others at the same instruction read the
rest. The kernel runs them all before the thread goes on, in any order, and the point is reported
when all of their events have come. If one has not when the next event of the stack comes (it was
lost, or its condition read what another thread had just changed), the point is reported without
its values.
"""

from __future__ import annotations

from collections.abc import Mapping

from lbtrace.calls.call_stack import Stack, WaitingPoint
from lbtrace.calls.ends import Ends
from lbtrace.calls.payload import Blob
from lbtrace.calls.probe_decoding import Act, ProbeDecoder, pass_over
from lbtrace.model import Argument, Call, Event
from lbtrace.values.datum import Unreadable

MISSING = Unreadable("not recorded")


class PointAssembler:
    """Reports points, and counts them; with ``parts``, several probes may read the values of
    one."""

    def __init__(self, ends: Ends, *, parts: bool) -> None:
        self.points = 0
        self._ends = ends
        self._has_parts = parts

    def pass_by(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Report a point; calls whose frames lie below its stack pointer have ended."""
        self._ends.arrive(stack, event)
        self._report(self._make_point(stack, decoding, event, decoding.arguments(event, blob)))

    def pass_inside(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """The same where nothing is reported outside of calls."""
        if stack.calls:
            self.pass_by(stack, decoding, event, blob)

    def _pass_by_part(self, stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
        """Report a point when the events of all of its probes have come."""
        waiting = stack.waiting
        if waiting is None or not waiting.expects(event):
            self.report_waiting(stack)
            self._ends.arrive(stack, event)
            point = self._make_point(stack, decoding, event, ())
            waiting = stack.waiting = WaitingPoint(point, decoding.parts)
        waiting.values[event.probe] = decoding.arguments(event, blob)
        if len(waiting.values) == len(waiting.probes):
            self.report_waiting(stack)

    def act_of(self, acts: Mapping[str, Act], decoder: ProbeDecoder) -> Act:
        """Return what to do with the events of a probe, ``acts`` being those of its pairing, by
        role."""
        if decoder.parts:
            return self._pass_by_part
        act = acts.get(decoder.role, pass_over)
        return self._after_waiting(act) if self._has_parts else act

    def _after_waiting(self, act: Act) -> Act:
        """``act`` for events that show that no more values of a waiting point come."""

        def report_first(stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
            self.report_waiting(stack)
            act(stack, decoding, event, blob)

        return report_first

    def report_waiting(self, stack: Stack) -> None:
        """Report the point that waits on a stack, if there is one, with the values that came."""
        waiting, stack.waiting = stack.waiting, None
        if waiting is None:
            return
        values: list[Argument] = []
        for probe in waiting.probes:
            missing = [Argument(name, MISSING) for name in self._ends.probes[probe].parameters]
            values += waiting.values.get(probe, missing)
        waiting.point.probe = waiting.probes[0]
        waiting.point.args = tuple(values)  # type: ignore[assignment]  # `Calls` names them
        self._report(waiting.point)

    def _report(self, point: Call) -> None:
        self.points += 1
        if point.depth < self._ends.max_depth:
            self._ends.visitor.point(point)

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
            callers=stack.callers,
            parent=stack.calls[-1] if stack.calls else None,
        )
