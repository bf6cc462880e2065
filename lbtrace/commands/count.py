"""``lbtrace count``: how often functions are called, or how a value of them is distributed."""

from __future__ import annotations

import argparse

from lbtrace.commands import answers
from lbtrace.commands.options import nonempty

MEANT = "{options} -- {program}"
COMMAND = True

EPILOG = """\
examples:
  lbtrace count --func 'parse_*' -- ./prog          how often each is called
  lbtrace count --pid 4711 --func '*' --top 20      until Ctrl-C
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


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    return answers.run(args, args.hist)
