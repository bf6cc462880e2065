"""System calls: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from lbtrace.abi.system_calls import locate_arguments, locate_raw
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, propose
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.lasting import Lasting
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe, Site
from lbtrace.model.wire_limits import SYSCALLS
from lbtrace.plan.found import Completed, Found
from lbtrace.plan.patterns import select
from lbtrace.plan.selection import Selection
from lbtrace.probes.sources import UNREAD
from lbtrace.syscalls import Call, Table, read_table
from lbtrace.syscalls.buffers import with_buffers
from lbtrace.syscalls.prototypes import NEVER_RETURN, prototype_of, raw_prototype

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A call counts as below the function that makes it, whose frame may be the stack pointer."""

SEEN = "sites: a tracepoint of the kernel"

OF_PROBES = frozenset({335, 336})
"""What the kernel serves probes by: ``uretprobe`` and ``uprobe`` of x86-64."""

BEYOND = 2 * SYSCALLS
"""What stands for all numbers from `SYSCALLS` on: bpf_src/programs/atomic/syscall.h."""


def find(images: Sequence[Image], selection: Selection) -> Iterator[Found]:
    """Yield the system calls that ``selection`` names. Raises `NoMatchError`."""
    machine = os.uname().machine
    table = read_table(machine)

    def explain(part: str) -> NoMatchError:
        hint = propose(part, table.calls, "lbtrace list --syscall shows all", 0.4)
        return NoMatchError(f"{part}: there is no such system call", hint)

    names = [*select(table.calls, selection.named["syscall"], "syscall", explain)]
    if len(names) == len(table.calls):
        yield _unnamed(machine, table)
    for name in names:
        call = table.calls[name]

        def complete(values: CallValues, name: str = name) -> Completed:
            shown = _shown(table.calls[name], selection)
            return Completed(*with_buffers(machine, name, table, values, selection.strings, shown))

        event = KernelEvent("syscall", call.number)
        opens = Probe(BELOW, "opens", source="syscall", binary=NO_BINARY, event=event)
        closes = replace(opens, role="closes") if name not in NEVER_RETURN else None
        yield Found(
            Function(name, call.number, 0, 0, returns=SEEN, binary=NO_BINARY),
            opens,
            prototype_of(table, name),
            partial(locate_arguments, machine),
            closes,
            complete,
            closes and replace(closes, event=KernelEvent(UNREAD, call.number)),
            lasting=partial(_lasting, machine, name, call),
        )


def _unnamed(machine: str, table: Table) -> Found:
    """Calls whose numbers have no name here: those of newer kernels, and what no kernel has."""
    named = {call.number for call in table.calls.values()}
    unnamed = {*range(SYSCALLS)} - named - OF_PROBES
    event = KernelEvent("syscall", BEYOND, others=tuple(sorted(unnamed)))
    opens = Probe(BELOW, "opens", source="syscall", binary=NO_BINARY, event=event)
    return Found(
        Function("syscall", BEYOND, 0, 0, returns=SEEN, binary=NO_BINARY),
        opens,
        raw_prototype(),
        partial(locate_raw, machine),
        replace(opens, role="closes"),
    )


def _lasting(machine: str, name: str, call: Call) -> Lasting | None:
    from lbtrace.syscalls.lasting import find_lasting  # imported here as only expressions ask

    return find_lasting(machine, name, call)


def _shown(call: Call, selection: Selection) -> dict[str, int]:
    """The arguments that are shown, by their names there, of which a request may have others."""
    numbers = {each.name: number for number, each in enumerate(call.parameters)}
    if selection.request is None or not selection.request.wanted:
        return numbers
    from lbtrace.expressions.tree import Name  # imported here because few requests name some

    asked = [(each.name, each.node) for each in selection.request.wanted]
    named = {name: node.name for name, node in asked if isinstance(node, Name)}
    return {shown: numbers[name] for shown, name in named.items() if name in numbers}
