"""What ``lbtrace list --syscall`` shows: system calls with their numbers and arguments."""

from __future__ import annotations

import argparse
import os

from msgspec import Struct

from lbtrace.commands.rows import write_json, write_lines
from lbtrace.commands.show import event_line
from lbtrace.model import Function
from lbtrace.plan.syscalls import describe, select
from lbtrace.syscalls import read_table


class ListedArgument(Struct, omit_defaults=True):
    """An argument: its ``name``, its ``type`` in C, and the ``constants`` that name its values."""

    name: str
    type: str
    constants: tuple[str, ...] = ()


class ListedCall(Struct):
    """A line of ``--json``: a system call of this machine."""

    name: str
    number: int
    arguments: tuple[ListedArgument, ...]


def list_arguments(function: Function) -> tuple[ListedArgument, ...]:
    """Return what is shown of the parameters of a call, or of the fields of a tracepoint."""
    return tuple(
        ListedArgument(each.name, each.type.name, tuple(n for _, n in each.type.constants()))
        for each in function.parameters
    )


def run(args: argparse.Namespace) -> int:
    """Print the system calls. Raises `LbtraceError`."""
    table = read_table(os.uname().machine)
    names = select(table, args.syscall)
    if not args.json:
        write_lines(event_line(describe(table, name)) for name in names)
        return 0
    rows = []
    for name in names:
        function = describe(table, name)
        rows.append(ListedCall(name, function.address, list_arguments(function)))
    write_json(rows)
    return 0
