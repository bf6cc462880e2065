"""``kernel_multi``: a link for all functions of the kernel that a program serves (Linux 5.18,
``CONFIG_FPROBE``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject

LOADING = Loading(lib.BPF_TRACE_KPROBE_MULTI)
DETACHING = 0.0


@cache
def works() -> bool:
    """Return whether the kernel takes such links. Debian's 6.1 has the type and refuses them."""
    return bool(lib.lbt_probe_kernel_multi())


def attach_events(
    loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    names = [ffi.new("char[]", _symbol(place)) for place in places]
    symbols = ffi.new("const char *[]", names)
    cookies = ffi.new("unsigned long long[]", [place.cookie for place in places])
    options = ffi.new("struct bpf_kprobe_multi_opts *")
    options.sz = ffi.sizeof("struct bpf_kprobe_multi_opts")
    options.syms = symbols
    options.cookies = cookies
    options.cnt = len(places)
    options.retprobe = wanted.at_return
    program = loaded.program(wanted.program)
    link = lib.bpf_program__attach_kprobe_multi_opts(program, ffi.NULL, options)
    check_pointer(link, f"attach to {len(places)} functions of the kernel")
    yield loaded.kernel_links.add(wanted.program, link)


def _symbol(place: Place) -> bytes:
    """The name, without that of its module."""
    assert place.probe.event is not None
    return place.probe.event.name.rpartition(":")[2].encode()
