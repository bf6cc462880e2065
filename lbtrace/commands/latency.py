"""``lbtrace latency``: how long calls take."""

from __future__ import annotations

import argparse

from lbtrace.commands import answers
from lbtrace.errors import UsageError

MEANT = "{options} -- {program}"
COMMAND = True

USAGE = """\
lbtrace latency [--func PATTERN | --source FILE | --syscall NAMES | --kernel NAMES]
                       [OPTION ...]
                       [-- COMMAND [ARG ...]]"""

POINTS = ("line", "at", "usdt", "tracepoint", "inlined")
"""Options that select what takes no time."""

EPILOG = """\
examples:
  lbtrace latency --func 'parse_*' -- ./prog
  lbtrace latency --pid 4711 --syscall 'read,write' --duration 10s
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    answers.arguments(parser)
    parser.usage = USAGE
    answers.hide(parser, (*POINTS, "provider"))


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    for name in POINTS:
        if getattr(args, name):
            what = f"--{name} is about points, which take no time"
            raise UsageError(what, f"lbtrace count --{name} counts them")
    return answers.run(args, "histogram", "duration", "hist")
