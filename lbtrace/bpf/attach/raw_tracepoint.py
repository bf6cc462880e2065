"""``raw_tracepoint``: a link for all probes of a program, which finds their cookies by the number
of the system call (Linux 5.15, for what tells the registers)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.model.wire_limits import SYSCALLS
from lbtrace.probes.sources import UNREAD

LOADING = Loading()
DETACHING = 0.0


def attach_events(
    loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    for place in places:
        event = place.probe.event
        assert event is not None
        number = event.number + (SYSCALLS if event.name == UNREAD else 0)
        for each in (number, *event.others):
            loaded.set_cookie(wanted.program, each, place.cookie)
    for name in loaded.serving(wanted.program):
        link = lib.bpf_program__attach(loaded.program(name))
        yield check_pointer(link, f"attach {name}")
