"""Plans probes at system calls, and adds them to a plan."""

from __future__ import annotations

import difflib
import os
from functools import partial

from msgspec.structs import replace

from lbtrace.abi.system_calls import locate_arguments
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import NO_BINARY, Function, KernelEvent, Plan, Probe, Site, Value
from lbtrace.plan.patterns import matching
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import select_values
from lbtrace.plan.warnings import name_functions
from lbtrace.syscalls import Table, read_table
from lbtrace.syscalls.buffers import CallBuffers, with_buffers
from lbtrace.syscalls.prototypes import NEVER_RETURN, prototype_of

ALIKE = 3
"""Names that an error proposes."""

UNREAD = "syscall, unread"
"""The event that a call ends of which something could not be read when it began:
bpf_src/programs/atomic/syscall.h."""

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A call counts as below the function that makes it, whose frame may be the stack pointer."""

UNFIT = "left out, as it has not what was asked for"


def add(plan: Plan, selection: Selection) -> Plan:
    """Return ``plan`` with probes at the system calls that ``selection`` names.

    Raises `UsageError`, `NoMatchError`.
    """
    machine = Machine(os.uname().machine)
    table = read_table(machine.name)
    functions, probes = list(plan.functions), list(plan.probes)
    unfit, first = list[str](), None
    for name in find(table, selection.syscalls):
        try:
            values, again = _values(machine, table, name, selection)
        except UsageError as error:  # it may fit another call
            first = first or error
            unfit.append(name)
            continue
        function, own = _planned(table, name, values, selection)
        if again and len(own) > 1:
            event = KernelEvent(UNREAD, table.calls[name].number)
            own.append(replace(own[-1], fetches=again, event=event))
        probes += [replace(probe, function=len(functions)) for probe in own]
        functions.append(function)
    if len(functions) == len(plan.functions) and first:
        raise first
    notes = (*plan.notes, *name_functions(unfit, UNFIT))
    return replace(plan, functions=tuple(functions), probes=tuple(probes), notes=notes)


def find(table: Table, patterns: tuple[str, ...]) -> list[str]:
    """Return the calls that any of ``patterns`` names, which may be several with commas between.
    Raises `NoMatchError` where one names none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for part in [pattern] if pattern.startswith("/") else pattern.split(","):
            named = matching(table.calls, [part], "syscall")
            if not named:
                near = difflib.get_close_matches(part, table.calls, ALIKE, 0.4)
                hint = (
                    f"nearest names: {', '.join(near)}"
                    if near
                    else "see: lbtrace list --syscall '*'"
                )
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


def _values(machine: Machine, table: Table, name: str, selection: Selection) -> CallBuffers:
    prototype = prototype_of(table, name)
    places = partial(locate_arguments, machine.name)
    chosen = select_values(machine, prototype, selection.values, places, undeclared=False)
    if selection.aggregates or (selection.request and selection.request.wanted):
        return CallBuffers(chosen)
    return with_buffers(machine.name, name, table.calls[name], chosen, selection.strings)


def _planned(
    table: Table, name: str, values: CallValues, selection: Selection
) -> tuple[Function, list[Probe]]:
    event = KernelEvent("syscall", table.calls[name].number)
    returns = name not in NEVER_RETURN and selection.returns != "none"
    if values.asks_return and not returns:
        raise UsageError(f"{name} does not return", f"leave it out of {option('syscall')}")
    function = Function(
        name,
        *(event.number, 0, 0, ()),
        parameters=values.parameters,
        result=values.result if returns else None,
        typed=True,
        returns="sites: a tracepoint of the kernel" if returns else "none",
        binary=NO_BINARY,
    )
    opens = Probe(
        BELOW,
        "opens",
        source="syscall",
        fetches=values.fetches,
        conditions=values.conditions,
        action="keep" if values.result_conditions else "send",
        binary=NO_BINARY,
        event=event,
    )
    closes = replace(
        opens,
        role="closes",
        fetches=values.result_fetches,
        conditions=values.result_conditions,
        action="send",
    )
    own = [opens, closes] if returns else [opens]
    if selection.aggregates:
        from lbtrace.plan import aggregation  # imported here because most plans send

        own = [*aggregation.choose_probes(own, selection.action, values)]
    return function, own
