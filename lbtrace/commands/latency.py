"""``lbtrace latency``: how long calls take."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import ModuleType

from lbtrace.commands import answers
from lbtrace.commands.options import slow
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
  lbtrace latency --pid 4711 --func 'handle_*' --slow 5ms   only the slow ones
  lbtrace latency run.lbt --func 'handle_*'   of a capture: of attach -o run.lbt
"""


def instead(words: Sequence[str]) -> ModuleType | None:
    """Return the command that is meant where a capture is named."""
    if not answers.names_capture(words):
        return None
    from lbtrace.commands import latency_of_capture

    return latency_of_capture


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    values = answers.arguments(parser)
    values.add_argument(
        "--slow",
        metavar="TIME",
        type=slow,
        dest="bound",
        help="only calls that took longer: 5ms",
    )
    answers.add_hist(
        values, "instead of durations, as lbtrace count --hist: arg0, retval, node->key"
    )
    parser.usage = USAGE
    answers.hide(parser, (*POINTS, "provider"))


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    for name in POINTS:
        if getattr(args, name):
            what = f"--{name} is about points, which take no time"
            raise UsageError(what, f"lbtrace count --{name} counts them")
    if args.bound is not None:
        from lbtrace.session.request import slower  # imported here: wrong options need no more

        if args.bound.pattern:
            raise UsageError(
                f"--slow {args.bound.pattern}=… is about what is below slow calls, too, which is"
                " not known when the kernel counts",
                f"write: lbtrace report --slow {args.bound}, or --func {args.bound.pattern} and"
                " --slow without it",
            )
        args.where = slower(args.where or "", args.bound.time)
    return answers.run(args, "histogram", args.hist or "duration", "hist")
