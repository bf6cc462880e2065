"""Counters of markers, which the kernel raises while probes are attached.

All probes at an address, whosever they are, have to raise the same one: ``alloc_uprobe`` in
kernel/events/uprobes.c refuses another one, and none beside one, with EINVAL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from errno import EINVAL
from typing import Any

from msgspec.structs import replace

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.attach import Attachment, AttachType, Place
from lbtrace.bpf.objects import TraceObject
from lbtrace.errors import KernelError, option
from lbtrace.model import Probe
from lbtrace.probes import PROBES
from lbtrace.system.file import File


def find_counters(probes: Iterable[Probe]) -> dict[tuple[int, int], int]:
    """Return the counters that are raised, by binary and offset: of the first marker there."""
    found: dict[tuple[int, int], int] = {}
    for probe in probes:
        if counter := PROBES[probe.source].counter_of(probe):
            found.setdefault((probe.binary, probe.site.offset), counter)
    return found


def attach(
    how: AttachType,
    loaded: TraceObject,
    wanted: Attachment,
    file: File,
    places: Sequence[Place],
    pid: int,
) -> Iterator[Any]:
    """Attach as ``how`` does, but say so where another tracer is in the way. Raises
    `KernelError`."""
    done = 0
    try:
        for link in how.attach(loaded, wanted, file, places, pid):
            yield link
            done += 1
    except KernelError as error:
        left = places[done : done + 1] if how.DETACHING else places
        bare = [replace(place, counter=0) for place in left if place.counter]
        if error.errno != EINVAL:
            raise
        if _can_attach(how, loaded, wanted, file, bare, pid):
            message = (
                f"cannot attach to markers of {file.path}: another tracer has probes there that"
                " do not raise their counters"
            )
            hint = "end that one, or let it trace the markers by their names"
            raise KernelError(message, hint, errno=EINVAL) from None
        hint = (
            f"another tracer may have markers there, whose counters {option('usdt')} would share;"
            " or see: lbtrace doctor"
        )
        raise KernelError(error.message, hint, detail=error.detail, errno=EINVAL) from None


def _can_attach(
    how: AttachType,
    loaded: TraceObject,
    wanted: Attachment,
    file: File,
    places: Sequence[Place],
    pid: int,
) -> bool:
    """Whether a kernel that has refused to attach does so to these places."""
    with suppress(KernelError):
        for link in how.attach(loaded, wanted, file, places, pid) if places else ():
            lib.bpf_link__destroy(link)
        return bool(places)
    return False
