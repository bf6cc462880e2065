"""What ``lbtrace list`` shows of the kernel: system calls with their arguments, tracepoints with
their fields, functions with their prototypes."""

from __future__ import annotations

import argparse

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lbtrace.commands.rows import write_json, write_lines
from lbtrace.commands.show import event_line, signature
from lbtrace.commands.streams import say
from lbtrace.model import Value
from lbtrace.naming import NAMING
from lbtrace.plan.found import Found, find
from lbtrace.plan.patterns import COPY
from lbtrace.plan.selection import Selection


class ListedArgument(Struct, omit_defaults=True):
    """An argument: its ``name``, its ``type`` in C, and the ``constants`` that name its values."""

    name: str
    type: str
    constants: tuple[str, ...] = ()


class ListedEvent(Struct, omit_defaults=True):
    """A line of ``--json``: a system call or tracepoint of this machine, by its ``number``, or a
    function of the kernel, and what it returns; of one that is not ``typed`` neither this nor its
    arguments are known."""

    name: str
    number: int | UnsetType = UNSET
    arguments: tuple[ListedArgument, ...] | UnsetType = UNSET
    fields: tuple[ListedArgument, ...] | UnsetType = UNSET
    module: str = ""
    result: str = ""
    typed: bool = True


def run(kind: str, args: argparse.Namespace) -> int:
    """Print what the option ``kind`` names. Raises `LbtraceError`."""
    selection = Selection(named={kind: tuple(vars(args)[kind])}, force=True)
    items = [*find(NAMING[kind].finder, [], selection)]
    found = [_described(each) for each in items if isinstance(each, Found)]
    if args.json:
        write_json(map(_listed, found))
        return 0
    write_lines(map(_line, found))
    say(each for each in items if isinstance(each, str))
    return 0


def _described(found: Found) -> Found:
    """The same with what its function declares, without what is fetched of it."""
    prototype = found.prototype
    if prototype is None:
        return found
    parameters = tuple(Value(formal.name, formal.type) for formal in prototype.parameters)
    result = Value("", prototype.result.type) if prototype.result else None
    shown = replace(found.function, parameters=parameters, result=result, typed=True)
    return found._replace(function=shown)


def _listed(found: Found) -> ListedEvent:
    function = found.function
    inside = tuple(
        ListedArgument(each.name, each.type.name, tuple(n for _, n in each.type.constants()))
        for each in function.parameters
    )
    if found.opens.role == "point":
        return ListedEvent(function.name, function.address, fields=inside)
    if found.opens.source != "kernel":
        return ListedEvent(function.name, function.address, inside)
    return ListedEvent(
        function.name,
        arguments=inside,
        module=_module(found),
        result=function.result.type.name if function.result else "",
        typed=function.typed,
    )


def _line(found: Found) -> str:
    function, event = found.function, found.opens.event
    if found.opens.source != "kernel" or event is None:
        return event_line(function, returns=found.opens.role != "point")
    written = signature(function) if function.typed else f"{function.name}(?)"
    changed = "  changed by the compiler" if COPY.search(event.name) else ""
    return f"{written}{f'  [{_module(found)}]' if _module(found) else ''}{changed}"


def _module(found: Found) -> str:
    return found.opens.event.name.rpartition(":")[0] if found.opens.event else ""
