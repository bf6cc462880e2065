"""``plain``: a link for each probe, by a perf event; everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.system.file import File

LOADING = Loading(may_sleep=True)
DETACHING = 0.15


def attach(
    loaded: TraceObject, wanted: Attachment, file: File, places: Sequence[Place], pid: int
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    for place in places:
        probe, cookie = place.probe, place.cookie
        options = ffi.new("struct bpf_uprobe_opts *")
        options.sz = ffi.sizeof("struct bpf_uprobe_opts")
        options.bpf_cookie = 0 if cookie in loaded.copies else cookie
        options.retprobe = wanted.at_return
        options.ref_ctr_offset = place.counter
        offset, program = probe.site.offset, loaded.program(wanted.program, cookie)
        link = lib.bpf_program__attach_uprobe_opts(
            program, pid or -1, file.opened.encode(), offset, options
        )
        yield check_pointer(link, f"attach to {file.path}+{offset:#x}")
