"""Places inside of functions that the program came by."""

from __future__ import annotations

from lbtrace.calls.call_stack import Stack
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.model import Call, Event


def make_point(
    stack: Stack, decoding: ProbeDecoder, event: Event, blob: bytes | memoryview
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
        decoding.arguments(event, blob),
        end="point",
        lost=stack.lost_count if stack.lost_time == event.time else 0,
        goroutine=event.goroutine,
        binary=decoding.binary,
        cpu=event.cpu,
    )
