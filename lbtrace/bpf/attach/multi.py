"""``multi``: a link for all probes of a file and program (Linux 6.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.system.file import File

LOADING = Loading(lib.BPF_TRACE_UPROBE_MULTI, may_sleep=True)
DETACHING = 0.0


def attach(
    loaded: TraceObject, wanted: Attachment, file: File, places: Sequence[Place], pid: int
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    yield link_places(loaded, wanted, file, places, pid)


def link_places(
    loaded: TraceObject,
    wanted: Attachment,
    file: File,
    places: Sequence[Place],
    pid: int,
    *,
    session: bool = False,
) -> Any:
    """Return one link for all of ``places``; in a ``session`` the program runs at both ends of
    calls. Raises `KernelError`."""
    offsets = ffi.new("unsigned long[]", [place.probe.site.offset for place in places])
    cookies = ffi.new("unsigned long long[]", [place.cookie for place in places])
    options = ffi.new("struct bpf_uprobe_multi_opts *")
    options.sz = ffi.sizeof("struct bpf_uprobe_multi_opts")
    options.offsets = offsets
    options.cookies = cookies
    options.cnt = len(places)
    options.retprobe = wanted.at_return
    options.session = session
    counters = ffi.new("unsigned long[]", [place.counter for place in places])
    if any(counters):
        options.ref_ctr_offsets = counters
    link = lib.bpf_program__attach_uprobe_multi(
        loaded.program(wanted.program), pid or -1, file.opened.encode(), ffi.NULL, options
    )
    return check_pointer(link, f"attach to {len(places)} places of {file.path}")
