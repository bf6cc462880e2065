"""``lbtrace count``: how often functions are called, or how a value of them is distributed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lbtrace.commands import answers
from lbtrace.commands.options import nonempty
from lbtrace.errors import UsageError

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

MEANT = "{options} -- {program}"
COMMAND = True

EPILOG = """\
examples:
  lbtrace count --func 'parse_*' -- ./prog          how often each is called
  lbtrace count --pid 4711 --func '*' --top 20      until Ctrl-C
  lbtrace count --func open --by 'str(arg0)' --binary libc.so.6 -- ./prog   by file
  lbtrace count --func malloc --hist arg0 --binary libc.so.6 -- ./prog   sizes
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    values = answers.arguments(parser)
    values.add_argument(
        "--hist",
        metavar="EXPR",
        type=nonempty,
        help="show how this integer is distributed: arg0, retval, node->key",
    )

    for how, meant in (("sum", "the sum"), ("min", "the least"), ("max", "the most")):
        _column(values, how, meant)
    _column(values, "avg", "the average")


def _column(values: _ArgumentGroup, how: str, meant: str) -> None:
    values.add_argument(
        f"--{how}",
        metavar="EXPR",
        dest="columns",
        type=lambda text: f"{how}({nonempty(text)})",
        action="append",
        help=f"add {meant} of this integer (repeatable; up to four, with commas)",
    )


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    if args.hist and args.columns:
        how = args.columns[0].partition("(")[0]
        raise UsageError(
            f"--hist and --{how} exclude each other", "leave one out: --hist shows the total, too"
        )
    return answers.run(args, "histogram" if args.hist else "count", args.hist, "hist")
