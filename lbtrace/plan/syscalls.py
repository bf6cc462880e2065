"""System calls: see `lbtrace.plan.probe_sources.Finder`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from lbtrace.abi.system_calls import locate_arguments
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.lasting import Lasting
from lbtrace.model import NO_BINARY, Function, KernelEvent, Probe, Site, Value
from lbtrace.plan.patterns import matching
from lbtrace.plan.probe_sources import Completed, Found
from lbtrace.plan.selection import Selection
from lbtrace.probes.syscall import UNREAD
from lbtrace.syscalls import Call, Table, read_table
from lbtrace.syscalls.buffers import with_buffers
from lbtrace.syscalls.prototypes import NEVER_RETURN, prototype_of

ALIKE = 3
"""Names that an error proposes."""

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A call counts as below the function that makes it, whose frame may be the stack pointer."""


def find(images: Sequence[Image], patterns: Sequence[str], selection: Selection) -> Iterator[Found]:
    """Yield the system calls that ``patterns`` name. Raises `NoMatchError`."""
    machine = os.uname().machine
    table = read_table(machine)
    for name in select(table, patterns):
        call = table.calls[name]

        def complete(values: CallValues, name: str = name) -> Completed:
            call = table.calls[name]
            shown = _shown(call, selection)
            return Completed(*with_buffers(machine, name, call, values, selection.strings, shown))

        event = KernelEvent("syscall", call.number)
        opens = Probe(BELOW, "opens", source="syscall", binary=NO_BINARY, event=event)
        closes = replace(opens, role="closes") if name not in NEVER_RETURN else None
        yield Found(
            replace(describe(table, name), returns="sites: a tracepoint of the kernel"),
            opens,
            prototype_of(table, name),
            partial(locate_arguments, machine),
            closes,
            complete,
            closes and replace(closes, event=KernelEvent(UNREAD, call.number)),
            lasting=partial(_lasting, machine, name, call),
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


def select(table: Table, patterns: Sequence[str]) -> list[str]:
    """Return the calls that any of ``patterns`` names, which may be several with commas between.
    Raises `NoMatchError` where one names none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for part in [pattern] if pattern.startswith("/") else pattern.split(","):
            named = matching(table.calls, [part], "syscall")
            if not named:
                near = ", ".join(difflib.get_close_matches(part, table.calls, ALIKE, 0.4))
                hint = f"nearest names: {near}" if near else "lbtrace list --syscall '*' shows all"
                raise NoMatchError(f"{part}: there is no such system call", hint)
            found |= dict.fromkeys(named)
    return list(found)


def describe(table: Table, name: str) -> Function:
    """Return a call as a list shows it: without what is fetched of it."""
    prototype = prototype_of(table, name)
    parameters = tuple(Value(formal.name, formal.type) for formal in prototype.parameters)
    result = Value("", prototype.result.type) if prototype.result else None
    number = table.calls[name].number
    return Function(name, number, 0, 0, (), parameters, result, typed=True, binary=NO_BINARY)
