"""``lbtrace list``: the functions of a binary with their probe places, its markers, or what
is in the kernel: system calls, tracepoints, functions."""

from __future__ import annotations

import argparse

from lbtrace.commands.options import nonempty, process, repeatable
from lbtrace.errors import UsageError
from lbtrace.naming import NAMING, option_of

MEANT = "--binary {program} {options}"
"""How a binary is named that was given without ``--binary``."""

FUNCTIONS_ONLY = ("func", "exclude", "source", "lines", "inlined", "sites")
"""Options that say nothing of markers."""

KERNEL = [name for name, each in NAMING.items() if each.place == "kernel"]
"""Options that list what is in the kernel."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--binary", metavar="PATH", type=nonempty, help="program or library")
    parser.add_argument(
        "-p",
        "--pid",
        metavar="PID",
        type=process,
        help="what this process runs and has loaded",
    )
    repeatable(
        parser, "--func", "PATTERN", "list only functions of this name, glob or /regex/", "-f"
    )
    repeatable(parser, "--exclude", "PATTERN", "list no functions of this name, glob or /regex/")
    repeatable(
        parser,
        "--source",
        "FILE",
        "list only functions that this source file defines: trace.c, 'src/*.c'",
    )
    parser.add_argument(
        "--lines",
        type=nonempty,
        metavar="FILE",
        help="list the lines of this source file that have code, and the variables there",
    )
    parser.add_argument(
        "--usdt",
        type=nonempty,
        nargs="?",
        const="*",
        metavar="PATTERN",
        help="list the markers (USDT) with their arguments: all, or PROVIDER:NAME, glob, /regex/",
    )
    for name in KERNEL:
        help = f"list {NAMING[name].help}; or all"
        repeatable(parser, option_of(name), NAMING[name].values, help, alone="*")
    repeatable(parser, "--provider", "FILE", "definitions of markers: names and types of arguments")
    parser.add_argument(
        "--inlined",
        action="store_true",
        help="list where the functions of --func and --source were inlined",
    )
    parser.add_argument("--full-names", action="store_true", help="do not shorten the names of C++")
    parser.add_argument("--sites", action="store_true", help="show where probes would be placed")
    parser.add_argument("--json", action="store_true", help="write one JSON array, for programs")


def run(args: argparse.Namespace) -> int:
    """Print the list. Raises `BinaryError` or `UsageError`."""
    for kind in filter(vars(args).get, KERNEL):
        elsewhere = ("binary", "pid", "usdt", *KERNEL, *FUNCTIONS_ONLY)
        others = [name for name in elsewhere if name != kind and vars(args)[name]]
        if others:
            raise UsageError(f"--{kind} and --{others[0]} list different things", "list them apart")
        from lbtrace.commands import show_events

        return show_events.run(kind, args)
    if not args.binary and not args.pid:
        raise UsageError("--binary is missing", "write: lbtrace list --binary PATH, or --pid PID")
    if args.usdt:
        others = [name for name in FUNCTIONS_ONLY if getattr(args, name)]
        if others:
            named = " and ".join(f"--{name}" for name in others)
            verb = "is" if len(others) == 1 else "are"
            raise UsageError(
                f"{named} {verb} about functions, --usdt about markers", "list them apart"
            )
        from lbtrace.commands import show_markers

        return show_markers.run(args)
    if args.provider:
        raise UsageError("--provider is about markers", "add --usdt")
    if args.lines or args.inlined:
        _check_alone(args, "lines" if args.lines else "inlined")
    if args.inlined and not (args.func or args.source):
        raise UsageError("--inlined is about functions", "name them with --func or --source")
    from lbtrace.commands import listing  # imported here: --help and wrong options need no more

    return listing.run(args)


def _check_alone(args: argparse.Namespace, kind: str) -> None:
    """Raise `UsageError` where options are given that a list of this ``kind`` does not heed."""
    unheeded = {"lines": ("func", "exclude", "source", "inlined", "sites"), "inlined": ("sites",)}[
        kind
    ]
    for name in unheeded:
        if getattr(args, name):
            raise UsageError(f"--{kind} and --{name} list different things", "list them apart")
