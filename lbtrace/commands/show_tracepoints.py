"""What ``lbtrace list --tracepoint`` shows: tracepoints of the kernel with their fields."""

from __future__ import annotations

import argparse

from msgspec import Struct

from lbtrace.commands.rows import write_json, write_lines
from lbtrace.commands.show import event_line
from lbtrace.commands.show_syscalls import ListedArgument, list_arguments
from lbtrace.plan.tracepoints import describe, select
from lbtrace.system.tracefs import read_format
from lbtrace.tracepoints import parse_format


class ListedTracepoint(Struct):
    """A line of ``--json``: a tracepoint of this kernel."""

    name: str
    number: int
    fields: tuple[ListedArgument, ...]


def run(args: argparse.Namespace) -> int:
    """Print the tracepoints. Raises `LbtraceError`."""
    names = select(args.tracepoint)
    found = (describe(name, parse_format(read_format(name))) for name in names)
    if args.json:
        write_json([ListedTracepoint(f.name, f.address, list_arguments(f)) for f in found])
    else:
        write_lines(event_line(function, returns=False) for function in found)
    return 0
