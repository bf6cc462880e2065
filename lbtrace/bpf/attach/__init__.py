"""Ways to attach a program to probes, a file each: `lbtrace.probes.Source.attach` names them.

A file has what `AttachType` has. How to add one: docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from msgspec import Struct

from lbtrace.bpf.objects import Loading, TraceObject
from lbtrace.model import Probe
from lbtrace.system.file import File


class Attachment(Struct, frozen=True):
    """What is attached in one go: a ``program`` by an attach type, ``at_return`` of the functions
    at the sites."""

    program: str
    attach: str
    at_return: bool = False


class Place(Struct, frozen=True):
    """Where a program is attached, the cookie that it finds there, and where in the file the
    ``counter`` is that the kernel raises meanwhile (``ref_ctr_offset``, Linux 4.20); 0 where there
    is none."""

    probe: Probe
    cookie: int
    counter: int = 0


class AttachType(Protocol):
    """What a file of this package has: `attach`, or `attach_events` where its probes are at events
    of the kernel, and `works` where a source says that it is ``tried``."""

    LOADING: Loading
    """How its programs are loaded."""

    DETACHING: float
    """Seconds that it takes to detach a probe, where each takes a link of its own and there are
    many: the kernel waits for an RCU grace period each time. 0: probes share a link."""

    def attach(
        self,
        loaded: TraceObject,
        wanted: Attachment,
        file: File,
        places: Sequence[Place],
        pid: int,
    ) -> Iterator[Any]:
        """Attach to the ``places`` of a file, in process ``pid``, or 0 for all: yields libbpf's
        links, each before the next one is made. Raises `KernelError`."""
        ...

    def attach_events(
        self, loaded: TraceObject, wanted: Attachment, places: Sequence[Place]
    ) -> Iterator[Any]:
        """Attach to the events of ``places``, whoever comes there, as `attach`."""
        ...

    def works(self) -> bool:
        """Return whether the kernel has it."""
        ...


def find_attach_type(name: str) -> AttachType:
    """Return the attach type of that name, imported when it is needed."""
    return cast("AttachType", import_module(f"{__name__}.{name}"))
