"""``kernel_plain``: a link for each function of the kernel, by a perf event (Linux 5.15, for
cookies)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from errno import EILSEQ, EINVAL
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.errors import NoMatchError

PMU = "/sys/bus/event_source/devices/kprobe/type"

LOADING = Loading()
DETACHING = 0.15


def works() -> bool:
    """Return whether the kernel has probes for its own functions."""
    return os.access(PMU, os.R_OK)


def attach_events(
    loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    program = loaded.program(wanted.program)
    for place in places:
        assert place.probe.event is not None
        name, offset = place.probe.event.name, place.probe.event.number
        options = ffi.new("struct bpf_kprobe_opts *")
        options.sz = ffi.sizeof("struct bpf_kprobe_opts")
        options.bpf_cookie = place.cookie
        options.offset = offset
        options.retprobe = wanted.at_return
        link = lib.bpf_program__attach_kprobe_opts(program, name.encode(), options)
        if offset and link == ffi.NULL and ffi.errno in (EILSEQ, EINVAL):
            raise NoMatchError(
                f"{name}+{offset:#x}: the kernel takes no probe there: it decodes the function, and"
                " there begins no instruction that may have one",
                "give the offset of another instruction, as objdump -d shows them of the vmlinux",
            )
        check_pointer(link, f"attach to {name} of the kernel")
        yield loaded.kernel_links.add(wanted.program, link)
