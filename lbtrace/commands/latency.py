"""``lbtrace latency``: how long calls take."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import ModuleType

from lbtrace.commands import answers, attach
from lbtrace.commands.options import slow
from lbtrace.errors import UsageError
from lbtrace.sinks import TABLES

MEANT = "{options} -- {program}"
COMMAND = True

USAGE = """\
lbtrace latency [--func PATTERN | --source FILE | --syscall NAMES | --kernel NAMES]
                       [OPTION ...]
                       [-- COMMAND [ARG ...]]"""

POINTS = ("line", "at", "usdt", "tracepoint", "inlined")
"""Options that select what takes no time."""

KNOWN = frozenset(("func", "pid", "tid", "comm"))
"""What is known of all calls that are sent."""

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
        help="only calls that took longer: 5ms; PATTERN=5ms: of these functions, and all below and"
        " around them",
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
        if args.bound.pattern:
            return _with_all_below(args)
        from lbtrace.session.request import slower  # imported here: wrong options need no more

        args.where = slower(args.where or "", args.bound.time)
    return answers.run(args, "histogram", args.hist or "duration", "hist")


def _with_all_below(args: argparse.Namespace) -> int:
    """Count calls of some functions that are slow, and all below and around them: the kernel does
    not know what is below them when it counts, so that calls are sent, and counted here."""
    from lbtrace.answers.tally import ask  # imported here: few ask for it

    asked = ask(args.by, (), "duration", "")
    others = [name for name in asked.by if name not in KNOWN]
    if args.hist or others:
        option = "--hist" if args.hist else f"--by {others[0]}"
        raise UsageError(
            f"--slow {args.bound.pattern}=… and {option} exclude each other",
            f"count calls of a capture: lbtrace attach --slow {args.bound} -o run.lbt, then"
            f" lbtrace latency run.lbt {option}",
        )
    args.action, args.formats, args.slow = "send", TABLES, args.bound
    args.args, args.asked = 0, asked
    return attach.run(args)
