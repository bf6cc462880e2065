"""``lbtrace report``: what calls took, by function, of a trace or of a capture."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from lbtrace.commands import answers, attach, export
from lbtrace.commands.options import nonempty, slow
from lbtrace.errors import CaptureError, UsageError
from lbtrace.sinks import REPORTS, format_for

if TYPE_CHECKING:
    from lbtrace.model import Plan

MEANT = "{options} -- {program}"
COMMAND = True

SORTS = ("total", "self", "avg", "p99", "max", "calls", "function")
"""The columns: those of `lbtrace.answers.row.SORTS`."""

USAGE = """\
lbtrace report CAPTURE [OPTION ...]
       lbtrace report [--func PATTERN | --source FILE | --syscall NAMES | --kernel NAMES]
                      [OPTION ...]
                      [-- COMMAND [ARG ...]]"""

EPILOG = """\
examples:
  lbtrace report --func 'parse_*' -- ./prog     of a command, when it has ended
  lbtrace report --pid 4711 --func 'parse_*'    of a running process, renewed until Ctrl-C
  lbtrace report --pid 4711 --func 'parse_*' --interval 1s | tee log   each second by itself
  lbtrace report run.lbt                        of what attach -o run.lbt has recorded
  lbtrace report run.lbt --by path --top 20     the call graph, as far as 20 rows go
  lbtrace report run.lbt --callers malloc       who calls it
  lbtrace report run.lbt --slow 'handle_*=5ms' --by path   where slow calls spend their time
  lbtrace report run.lbt --func parse_line --from 2s --to 3s   only these calls, and all below
  lbtrace report run.lbt --by arg:size          a row for each value of an argument
  lbtrace report old.lbt --diff new.lbt         what has changed, the largest change first
"""

ABOUT_BOTH = {
    *("capture", "key", "callers", "callees", "sort", "top", "format"),
    *("output", "force", "quiet", "strict", "slow", "func", "where"),
}
"""What a report of a trace and one of a capture take, as argparse calls it."""

ABOUT_CAPTURES = {
    **{"diff": "--diff", "salvage": "--salvage", "thread": "--thread"},
    **{"from_time": "--from", "to_time": "--to"},
}
"""What only one of a capture takes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "capture",
        metavar="CAPTURE",
        nargs="?",
        type=nonempty,
        help="a file that attach -o NAME.lbt wrote; without one, what the options select is traced",
    )
    rows = parser.add_argument_group("rows")
    rows.add_argument(
        "--by",
        dest="key",
        metavar="KEY",
        type=nonempty,
        help="a row for each path, thread, caller or arg:NAME (default: for each function)",
    )
    rows.add_argument(
        "--callers", metavar="PATTERN", type=nonempty, help="only what calls these functions"
    )
    rows.add_argument(
        "--callees", metavar="PATTERN", type=nonempty, help="only what these functions call"
    )
    rows.add_argument(
        "--sort", choices=SORTS, default="total", help="the column to sort by (default: total)"
    )
    rows.add_argument(
        "--slow",
        metavar="TIME",
        type=slow,
        help="of calls that took longer, all below them and around them: 5ms; PATTERN=5ms: of these"
        " functions",
    )
    captures = parser.add_argument_group("captures")
    captures.add_argument(
        "--diff", metavar="OTHER", type=nonempty, help="what changed from CAPTURE to this capture"
    )
    captures.add_argument(
        "--salvage", action="store_true", help="read what can be read of a damaged capture"
    )
    export.add_span(captures)
    answers.arguments(parser, REPORTS, keyed=False)
    parser.usage = USAGE
    parser.set_defaults(strings=64, slow=None)


def run(args: argparse.Namespace) -> int:
    """Report. Of a capture `LOST` is the status under ``--strict`` where something is missing; of
    a trace see `attach.run`."""
    return _of_capture(args) if args.capture else _of_trace(args)


def _of_capture(args: argparse.Namespace) -> int:
    traced = args.parser.words_for(args, ABOUT_BOTH.union(ABOUT_CAPTURES))
    if args.command or traced:
        raise UsageError(
            f"{args.capture} is to be a capture, and {traced[0] if traced else '--'} is about what"
            " is traced",
            _meant_as_program(args) or "leave one of them out",
        )
    from lbtrace.commands import reporting  # imported here: --help and wrong options need no more

    try:
        return reporting.run(args)
    except CaptureError as error:
        if meant := _meant_as_program(args):
            error.advise(meant)
        raise


def _meant_as_program(args: argparse.Namespace) -> str:
    """What to write where the capture is a program; empty where it is none."""
    if args.command or not (os.path.isfile(args.capture) and os.access(args.capture, os.X_OK)):
        return ""
    meant: str = args.parser.advise_on_strays()
    return meant


def _of_trace(args: argparse.Namespace) -> int:
    for option in [ABOUT_CAPTURES[name] for name in ABOUT_CAPTURES if vars(args)[name]]:
        raise UsageError(
            f"{option} is about a capture, and none is named",
            f"write: lbtrace report CAPTURE {option}",
        )
    if not (attach.names_functions(args) or args.command or args.pid):
        raise UsageError(
            "neither a capture is named nor what to trace",
            f"write: lbtrace report CAPTURE, or {attach.FIRST.replace('attach', 'report')}",
        )
    by_argument = (args.key or "").startswith("arg:")
    is_capture = format_for(args.format, args.output, formats=REPORTS).is_capture
    args.action, args.args = "send", None if by_argument or is_capture else 0
    args.formats, args.settings = REPORTS, partial(_settings, args)
    return attach.run(args)


def _settings(args: argparse.Namespace, plan: Plan) -> dict[str, Any]:
    from lbtrace.commands.reporting import settings  # imported here: a plan is shown without it

    return {"settings": settings(plan, args, "lbtrace list shows functions; --func traces more")}
