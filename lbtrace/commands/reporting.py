"""Reports on a capture."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from io import StringIO
from typing import BinaryIO, cast

from lbtrace.answers.diff import compare, flat, write_changes, write_changes_json
from lbtrace.answers.profile import By
from lbtrace.answers.report import check_argument
from lbtrace.answers.row import Row
from lbtrace.answers.table import write_columns, write_csv
from lbtrace.capture import Capture, read_capture
from lbtrace.commands.destination import Destination
from lbtrace.commands.exporting import Choice, drive, tell_notes, tell_summary, write
from lbtrace.commands.output import open_output
from lbtrace.commands.progress import Progress
from lbtrace.commands.streams import say
from lbtrace.errors import UsageError
from lbtrace.model import Losses, Plan
from lbtrace.plan.traced_names import CALLED, named
from lbtrace.sinks import REPORTS, format_for
from lbtrace.sinks.report import Report, Settings

KEYS: dict[str, By] = {"path": "path", "thread": "thread", "caller": "caller"}
"""What ``--by`` takes, beside arguments."""


def run(args: argparse.Namespace) -> int:
    """Report; `LOST` under ``--strict`` when the account shows losses."""
    if args.diff:
        return _compare(args)
    with read_capture(args.capture, salvage=args.salvage) as capture:
        _check_calls(capture)
        return write(capture, REPORTS, args, settings=settings(capture.plan, args))


def _check_calls(capture: Capture) -> None:
    if "send" not in capture.plan.actions:
        raise UsageError(
            f"{capture.path} holds what was aggregated in the kernel, no calls",
            f"write: lbtrace export {capture.path}",
        )


def _compare(args: argparse.Namespace) -> int:
    """Report what differs between two captures."""
    form = format_for(args.format, args.output, captures=False, formats=REPORTS).name
    destination = Destination(args.output, force=args.force, kept=[args.capture, args.diff])
    if args.key == "thread":
        raise UsageError("--diff compares no threads", "leave --by thread out")
    if args.sort != "total":
        raise UsageError("--diff sorts by the change of TOTAL", f"leave --sort {args.sort} out")
    found, lost, status = list[list[Row]](), list[Losses](), 0
    with ExitStack() as opened:
        captures = [
            opened.enter_context(read_capture(path, salvage=args.salvage))
            for path in (args.capture, args.diff)
        ]
        sinks = [_profiled(capture, args) for capture in captures]
        for capture, sink in zip(captures, sinks, strict=True):
            tell_notes(capture, args)
            choice = Choice(capture, args)
            with Progress(not destination.is_stdout) as progress:
                summary = drive(capture, choice.before(sink), progress, batches=choice.batches())
            if not args.quiet:
                say([f"{capture.path}:"])
            status = max(status, tell_summary(capture, summary, args, choice.describe()))
            found.append(sink.rows())
            lost.append(summary.losses)
    every = compare(*found)
    changes = every[: args.top]
    with open_output(destination, binary=form == "parquet") as stream:
        if form == "parquet":
            write_columns(cast(BinaryIO, stream), *flat(changes))
        elif form == "json":
            stream.write(write_changes_json(changes, lost))
        else:
            left = len(every) - len(changes)
            more = f"and {left:,} more\n" if left else ""
            text = write_changes(changes) + more
            stream.write(write_csv(*flat(changes)) if form == "csv" else text)
    return status


def _profiled(capture: Capture, args: argparse.Namespace) -> Report:
    _check_calls(capture)
    chosen = settings(capture.plan, args)
    return Report(StringIO(), capture.plan, settings=chosen)  # only its rows are wanted


def settings(plan: Plan, args: argparse.Namespace, hint: str = CALLED) -> Settings:
    """Return what the options choose of the rows of a trace. Raises `UsageError`, `NoMatchError`
    with ``hint`` where a function is named that is not traced."""
    by: By = "function"
    argument = ""
    callers, callees = (
        named(plan, [pattern], hint) if pattern else frozenset[str]()
        for pattern in (args.callers, args.callees)
    )
    if callers or callees:
        if args.key or (callers and callees):
            raise UsageError("--callers, --callees and --by exclude each other", "give one of them")
        by = "caller"
    elif args.key and args.key.startswith("arg:"):
        by, argument = "argument", check_argument(plan, args.key.removeprefix("arg:"))
    elif args.key:
        if args.key not in KEYS:
            raise UsageError(
                f"--by {args.key} is no key", f"choose one of: {', '.join(KEYS)}, arg:NAME"
            )
        by = KEYS[args.key]
    return Settings(by, argument, args.sort, args.top, callers, callees)
