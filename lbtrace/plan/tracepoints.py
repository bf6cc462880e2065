"""Tracepoints of the kernel: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError, propose
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe, Site
from lbtrace.plan.found import Found
from lbtrace.plan.patterns import select
from lbtrace.plan.selection import Selection
from lbtrace.system.tracefs import list_events, read_format
from lbtrace.tracepoints import parse_format

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A point is below the system call that led there: see `lbtrace.plan.syscalls.BELOW`."""

INSIDE = Site(0, 0, sp_delta=BELOW.sp_delta - (1 << 17), emulated=True)
"""Below the kernel's functions that led there, too: those are placed below the system call by how
deep they are on the kernel's stack (LBT_KERNEL_STACK in bpf_src/lbtrace.h)."""

MOST = 1000
"""Tracepoints of a trace: each takes a link, which takes 0.1 s to detach."""


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found]:
    """Yield the tracepoints that ``selection`` names. Raises `NoMatchError`, `KernelError`."""
    known = list_events()

    def explain(part: str) -> NoMatchError:
        return NoMatchError(f"{part}: there is no such tracepoint", _advice(part, known))

    names = select(known, selection.named["tracepoint"], "tracepoint", explain)
    if len(names) > MOST and not selection.force:
        raise UsageError(
            f"{len(names):,} tracepoints match, more than {MOST:,}", "name fewer: 'sched:*'"
        )
    for name in names:
        format = parse_format(read_format(name))
        event = KernelEvent(name, format.number)
        site = INSIDE if "kernel" in selection.named else BELOW
        point = Probe(site, "point", source="tracepoint", binary=NO_BINARY, event=event)
        shown = Function(name, format.number, 0, 0, binary=NO_BINARY)
        yield Found(shown, point, format.prototype, format.places)


def _advice(part: str, names: Sequence[str]) -> str:
    """What may be meant instead."""
    if ":" not in part:
        category = [name for name in names if name.startswith(f"{part}:")]
        named = [name for name in names if name.endswith(f":{part}")]
        if category or named:
            return f"write {named[0] if named else f'{part}:*'}"
    return propose(part, names, "lbtrace list --tracepoint shows all")
