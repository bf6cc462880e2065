"""``lbtrace report``: what the calls of a capture took, by function."""

from __future__ import annotations

import argparse

from lbtrace.commands import export
from lbtrace.commands.options import natural, nonempty

SORTS = ("total", "self", "avg", "p99", "max", "calls", "function")
"""The columns: those of `lbtrace.answers.row.SORTS`."""

EPILOG = """\
examples:
  lbtrace report run.lbt                        all functions, the longest total first
  lbtrace report run.lbt --by path --top 20     the call graph, as far as 20 rows go
  lbtrace report run.lbt --callers malloc       who calls it
  lbtrace report run.lbt --by arg:size          a row for each value of an argument
  lbtrace report old.lbt --diff new.lbt         what has changed, the largest change first
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    export.add_capture(parser)
    parser.add_argument(
        "--by",
        metavar="KEY",
        type=nonempty,
        help="a row for each path, thread, caller or arg:NAME (default: for each function)",
    )
    parser.add_argument(
        "--callers", metavar="PATTERN", type=nonempty, help="only what calls these functions"
    )
    parser.add_argument(
        "--callees", metavar="PATTERN", type=nonempty, help="only what these functions call"
    )
    parser.add_argument(
        "--diff", metavar="OTHER", type=nonempty, help="what changed from CAPTURE to this capture"
    )
    parser.add_argument(
        "--sort", choices=SORTS, default="total", help="the column to sort by (default: total)"
    )
    parser.add_argument("--top", metavar="N", type=natural, help="show N rows")
    parser.add_argument(
        "--format",
        choices=("table", "json", "csv", "parquet"),
        default="table",
        help="default: table",
    )
    export.add_output(parser)
    export.add_account(parser)


def run(args: argparse.Namespace) -> int:
    """Report; `LOST` under ``--strict`` when the account shows losses."""
    from lbtrace.commands import reporting  # imported here: --help and wrong options need no more

    return reporting.run(args)
