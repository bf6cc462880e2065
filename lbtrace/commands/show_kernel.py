"""What ``lbtrace list --kernel`` shows: functions of the kernel with their prototypes."""

from __future__ import annotations

import argparse

from msgspec import Struct

from lbtrace.btf.prototypes import KernelTypes
from lbtrace.commands.rows import write_json, write_lines
from lbtrace.commands.show import signature
from lbtrace.commands.show_syscalls import ListedArgument, list_arguments
from lbtrace.commands.streams import say
from lbtrace.model import Function
from lbtrace.plan.kernel_functions import describe, explain, select
from lbtrace.plan.patterns import COPY


class ListedFunction(Struct, omit_defaults=True):
    """A line of ``--json``: a function of this kernel, and what it returns; of one that is not
    ``typed`` neither this nor its arguments are known."""

    name: str
    arguments: tuple[ListedArgument, ...]
    module: str = ""
    result: str = ""
    typed: bool = True


def run(args: argparse.Namespace) -> int:
    """Print the functions. Raises `LbtraceError`."""
    selected = select(args.kernel)
    types = KernelTypes()
    found = ((name, describe(name, types.find(name))) for name in selected.names)
    if args.json:
        write_json([_listed(name, function) for name, function in found])
    else:
        write_lines(_line(name, function) for name, function in found)
        say([*explain(selected)])
    return 0


def _listed(name: str, function: Function) -> ListedFunction:
    result = function.result.type.name if function.result else ""
    module = name.rpartition(":")[0]
    return ListedFunction(
        function.name, list_arguments(function), module, result, typed=function.typed
    )


def _line(name: str, function: Function) -> str:
    module = name.rpartition(":")[0]
    written = signature(function) if function.typed else f"{function.name}(?)"
    changed = "  changed by the compiler" if COPY.search(name) else ""
    return f"{written}{f'  [{module}]' if module else ''}{changed}"
