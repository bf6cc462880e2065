"""System calls: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from lbtrace.abi.system_calls import locate_arguments
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe, Site
from lbtrace.plan.found import Completed, Found
from lbtrace.plan.patterns import propose, select
from lbtrace.plan.selection import Selection
from lbtrace.probes.sources import UNREAD
from lbtrace.syscalls import read_table
from lbtrace.syscalls.buffers import with_buffers
from lbtrace.syscalls.prototypes import NEVER_RETURN, prototype_of

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A call counts as below the function that makes it, whose frame may be the stack pointer."""


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found]:
    """Yield the system calls that ``selection`` names. Raises `NoMatchError`."""
    machine = os.uname().machine
    table = read_table(machine)

    def explain(part: str) -> NoMatchError:
        hint = propose(part, table.calls, "lbtrace list --syscall shows all", 0.4)
        return NoMatchError(f"{part}: there is no such system call", hint)

    for name in select(table.calls, selection.named["syscall"], "syscall", explain):
        call = table.calls[name]

        def complete(values: CallValues, name: str = name) -> Completed:
            return Completed(*with_buffers(machine, name, table, values, selection.strings))

        event = KernelEvent("syscall", call.number)
        opens = Probe(BELOW, "opens", source="syscall", binary=NO_BINARY, event=event)
        closes = replace(opens, role="closes") if name not in NEVER_RETURN else None
        seen = "sites: a tracepoint of the kernel"
        yield Found(
            Function(name, call.number, 0, 0, returns=seen, binary=NO_BINARY),
            opens,
            prototype_of(table, name),
            partial(locate_arguments, machine),
            closes,
            complete,
            closes and replace(closes, event=KernelEvent(UNREAD, call.number)),
        )
