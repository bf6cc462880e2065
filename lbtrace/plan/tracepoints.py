"""Tracepoints of the kernel: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe, Site, Value
from lbtrace.plan.found import Found
from lbtrace.plan.patterns import matching
from lbtrace.plan.selection import Selection
from lbtrace.system.tracefs import list_events, read_format
from lbtrace.tracepoints import Format, parse_format

ALIKE = 3
"""Names that an error proposes."""

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A point is below the system call that led there: see `lbtrace.plan.syscalls.BELOW`."""

INSIDE = Site(0, 0, sp_delta=BELOW.sp_delta - (1 << 17), emulated=True)
"""Below the kernel's functions that led there, too: those are placed below the system call by how
deep they are on the kernel's stack (LBT_KERNEL_STACK in bpf_src/lbtrace.h)."""

MOST = 1000
"""Tracepoints of a trace: each takes a link, which takes 0.1 s to detach."""


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found]:
    """Yield the tracepoints that ``selection`` names. Raises `NoMatchError`, `KernelError`."""
    names = select(selection.named["tracepoint"])
    if len(names) > MOST and not selection.force:
        raise UsageError(
            f"{len(names):,} tracepoints match, more than {MOST:,}", "name fewer: 'sched:*'"
        )
    for name in names:
        format = parse_format(read_format(name))
        event = KernelEvent(name, format.number)
        site = INSIDE if "kernel" in selection.named else BELOW
        point = Probe(site, "point", source="tracepoint", binary=NO_BINARY, event=event)
        yield Found(describe(name, format), point, format.prototype, format.places)


def select(patterns: Sequence[str]) -> list[str]:
    """Return the tracepoints that any of ``patterns`` names, as ``CATEGORY:NAME``; one may be
    several with commas between. Raises `NoMatchError` where one names none, `KernelError`."""
    names = list_events()
    found: dict[str, None] = {}
    for pattern in patterns:
        for part in [pattern] if pattern.startswith("/") else pattern.split(","):
            named = matching(names, [part], "tracepoint")
            if not named:
                raise NoMatchError(f"{part}: there is no such tracepoint", _advice(part, names))
            found |= dict.fromkeys(named)
    return list(found)


def _advice(part: str, names: Sequence[str]) -> str:
    """What may be meant instead."""
    if ":" not in part:
        category = [name for name in names if name.startswith(f"{part}:")]
        named = [name for name in names if name.endswith(f":{part}")]
        if category or named:
            return f"write {named[0] if named else f'{part}:*'}"
    near = difflib.get_close_matches(part, names, ALIKE, 0.6)
    if near:
        return f"nearest names: {', '.join(near)}"
    return "lbtrace list --tracepoint '*' shows all"


def describe(name: str, format: Format) -> Function:
    """Return a tracepoint as a list shows it: without what is fetched of it."""
    fields = tuple(Value(field.name, field.type) for field in format.fields)
    return Function(name, format.number, 0, 0, (), fields, None, typed=True, binary=NO_BINARY)
