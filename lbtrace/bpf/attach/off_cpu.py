"""``off_cpu``: a link for the program that learns when threads are switched (Linux 5.15, for what
tells the registers); that of their waking is attached before (`lbtrace.session.processes`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.attach import Attachment, Place
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Loading, TraceObject

LOADING = Loading(fetches=False)
DETACHING = 0.0


def attach_events(
    loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
) -> Iterator[Any]:
    """See `lbtrace.bpf.attach.AttachType`."""
    link = lib.bpf_program__attach(loaded.program(wanted.program))
    yield check_pointer(link, f"attach {wanted.program}")
