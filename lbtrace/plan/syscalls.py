"""Plans probes at system calls, and adds them to a plan."""

from __future__ import annotations

import difflib
import os
from functools import partial

from msgspec.structs import replace

from lbtrace.abi.system_calls import ARGUMENTS, RESULT, locate_arguments
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import NO_BINARY, Fetch, Function, KernelEvent, Plan, Probe, Site, Value
from lbtrace.model.wire_limits import CHUNKS
from lbtrace.plan.patterns import matching
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import select_values
from lbtrace.plan.warnings import name_functions
from lbtrace.syscalls import Call, Table, read_table
from lbtrace.syscalls.prototypes import (
    FILLING,
    NEVER_RETURN,
    is_buffer,
    is_filled,
    length_of,
    prototype_of,
)
from lbtrace.values.mode import Mode
from lbtrace.values.pointer import Pointer
from lbtrace.values.socket_address import SocketAddress
from lbtrace.values.string import String

ALIKE = 3
"""Names that an error proposes."""

BELOW = Site(0, 0, sp_delta=-8, emulated=True)
"""A call counts as below the function that makes it, whose frame may be the stack pointer."""

SOCKET_ADDRESS = 110
"""Bytes of the longest address of a socket (``struct sockaddr_un``)."""

CREATES = 0x400040
"""Flags of open(2) with which it takes a mode: ``O_CREAT`` and ``O_TMPFILE``, everywhere."""

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
            values = _values(machine, table, name, selection)
        except UsageError as error:  # it may fit another call
            first = first or error
            unfit.append(name)
            continue
        function, own = _planned(table, name, values, selection)
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


def _values(machine: Machine, table: Table, name: str, selection: Selection) -> CallValues:
    prototype = prototype_of(table, name)
    places = partial(locate_arguments, machine.name)
    chosen = select_values(machine, prototype, selection.values, places, undeclared=False)
    if chosen.is_conditional or (selection.request and selection.request.wanted):
        return chosen
    if selection.aggregates:
        return chosen
    return _with_buffers(machine.name, name, table.calls[name], chosen, selection.strings)


def _with_buffers(
    machine: str, name: str, call: Call, values: CallValues, limit: int
) -> CallValues:
    """Return ``values`` with the bytes of buffers: those that the caller passes when the call
    begins, those that the kernel fills when it ends."""
    parameters, fetches = list(values.parameters), list(values.fetches)
    after, result = list(values.result_fetches), values.result
    for number, value in enumerate(parameters):
        if value.slot < 0:
            continue
        own, length = fetches[value.slot], length_of(call, number)
        type = call.parameters[number].type
        if type == "struct sockaddr *" and call.parameters[number + 1].type == "int":
            counted = parameters[number + 1].slot
            fetches[value.slot] = replace(
                own, read="bytes", limit=SOCKET_ADDRESS, length_from=counted
            )
            parameters[number] = replace(value, type=SocketAddress(type))
        elif is_buffer(call, number) and length < len(parameters):
            counted = parameters[length].slot
            fetches[value.slot] = Fetch(
                register=own.register, read="bytes", limit=limit, length_from=counted
            )
            parameters[number] = replace(value, type=String(type))
        elif is_filled(name, call, number) and own.read == "string":
            fetches[value.slot] = replace(own, read="value")
            parameters[number] = replace(value, type=Pointer(type))
        elif type == "umode_t" and parameters[number - 1].name in ("flags", "oflag"):
            members = (parameters[number - 1], replace(value, type=value.type))
            parameters[number] = replace(value, type=Mode(type, 4, CREATES), members=members)
    filled = _filled(machine, name, call)
    if filled is not None and result is not None:
        register = ARGUMENTS[machine][filled]
        after = [
            Fetch(register=RESULT[machine]),
            Fetch(register=register, read="bytes", limit=limit, length_from=0, optional=True),
        ]
        buffer = call.parameters[filled]
        members = (Value("", result.type, 0), Value(buffer.name, String(buffer.type), 1))
        result = replace(result, slot=0, members=members)
    assert sum(fetch.read in ("string", "bytes") for fetch in fetches) <= CHUNKS
    return replace(
        values,
        parameters=tuple(parameters),
        fetches=tuple(fetches),
        result=result,
        result_fetches=tuple(after),
    )


def _filled(machine: str, name: str, call: Call) -> int | None:
    """Which argument leads to what the kernel has filled when the call ends, if its register is
    not lost by then."""
    number = next(
        (n for n, each in enumerate(call.parameters) if FILLING.get(name) == each.name), None
    )
    if number is None or ARGUMENTS[machine][number] == RESULT[machine]:
        return None
    return number


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
