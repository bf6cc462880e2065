"""What commands share whose answer is a table that the kernel makes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lbtrace.commands import attach
from lbtrace.commands.options import natural, nonempty, seconds
from lbtrace.sinks import TABLES

if TYPE_CHECKING:
    from argparse import _ArgumentGroup


def arguments(parser: argparse.ArgumentParser, formats: Iterable[str] = TABLES) -> _ArgumentGroup:
    """Add the options, and return the group of those about values."""
    parser.usage = attach.USAGE.replace("lbtrace attach", parser.prog)
    attach.add_selection(parser)
    values = parser.add_argument_group("values")
    values.add_argument(
        "--by",
        metavar="EXPR",
        type=nonempty,
        action="append",
        default=[],
        help="count by this, not by function and process: path, str(arg0), retval, comm, func"
        " (up to four, with commas)",
    )
    attach.add_conditions(values)
    attach.add_ends(parser.add_argument_group("end"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        metavar="NAME",
        help=f"{', '.join(formats)} (default: by the suffix, or the first)",
    )
    output.add_argument(
        "--interval",
        metavar="TIME",
        type=seconds,
        help="in a pipe or a file: write what each 1s has added; on a terminal: renew the table so"
        " often",
    )
    output.add_argument("--top", metavar="N", type=natural, help="show the first N rows")
    attach.add_output(output)
    attach.add_ways(parser)
    parser.set_defaults(
        **{"command": [], "args": None, "arg": [], "locals": False, "depth": 0, "strings": 127},
        **{"max_depth": None, "max_events": None, "cpu": False, "slow": None},
        columns=[],
        off_cpu=0,
        time=None,
        color="never",
        wrap=True,
    )
    return values


def run(args: argparse.Namespace, value: str | None) -> int:
    """Count calls, or show how a value is distributed; return what `attach.run` does."""
    args.action = "histogram" if value else "count"
    args.arg = [value] if value else []
    return attach.run(args)
