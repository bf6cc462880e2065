"""``tracepoint``: a link for each probe, which the kernel removes with the process that holds it
(Linux 5.15, for cookies and for what tells the registers)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check, check_pointer
from lbtrace.bpf.objects import Loading, TraceObject

LOADING = Loading()
DETACHING = 0.025


def attach_events(
    loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    program = loaded.program(wanted.program)
    for place in places:
        assert place.probe.event is not None
        what = f"attach to {place.probe.event.name}"
        event = check(lib.lbt_open_tracepoint(place.probe.event.number), what)
        options = ffi.new("struct bpf_perf_event_opts *")
        options.sz = ffi.sizeof("struct bpf_perf_event_opts")
        options.bpf_cookie = place.cookie
        link = lib.bpf_program__attach_perf_event_opts(program, event, options)
        if link == ffi.NULL:
            number = ffi.errno
            os.close(event)
            ffi.errno = number
        yield check_pointer(link, what)
