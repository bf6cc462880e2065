"""What left calls of Go: the panics that are on their way in a goroutine."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.calls.call_stack import Panic
from lbtrace.calls.payload import Blob
from lbtrace.calls.probe_decoding import ProbeDecoder
from lbtrace.model import Call, Datum, Event
from lbtrace.values.thrown import panic_of

WRAPS = 1 << 64


def read(decoding: ProbeDecoder, event: Event, blob: Blob) -> Panic:
    """Return the panic that an event of its probe tells."""
    value, *more = (each.value for each in decoding.arguments(event, blob))
    running = 0
    if len(more) == 2 and isinstance(more[0], int) and isinstance(more[1], int) and more[0]:
        running = (more[0] - more[1]) % WRAPS  # as frames are: from the top of the stack
    return Panic(event.frame, event.time, panic_of(value), running)


def which(panics: Sequence[Panic], call: Call) -> Datum:
    """Return the one of several panics that has left a call; None where that is not known."""
    found: Panic | None = None
    for panic in panics:
        if not panic.passes(call):
            continue
        if found is not None and panic.value != found.value and not panic.running:
            return None
        if found is None or call.frame > panic.running:
            found = panic
    return found and found.value
