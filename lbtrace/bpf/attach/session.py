"""``session``: a link for a file, whose program runs at the entry of calls and at their return,
unless it refuses that one at the entry (Linux 6.13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.attach.multi import link_places
from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.system.file import File

LOADING = Loading(lib.BPF_TRACE_UPROBE_SESSION, may_sleep=True)
DETACHING = 0.0


def attach(
    loaded: TraceObject, wanted: Attachment, file: File, places: Sequence[Place], pid: int
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    yield link_places(loaded, wanted, file, places, pid, session=True)
