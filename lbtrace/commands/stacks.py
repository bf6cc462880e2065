"""``lbtrace stacks``: from where functions are called."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import ModuleType

from lbtrace.commands import answers, attach
from lbtrace.commands.options import least, nonempty
from lbtrace.errors import UsageError
from lbtrace.sinks import EACH, STACKS
from lbtrace.validation import CALLERS

MEANT = "{options} -- {program}"
COMMAND = True

EPILOG = """\
examples:
  lbtrace stacks --func malloc --binary libc.so.6 -- ./prog   who calls it how often
  lbtrace stacks --func malloc --sum arg0 --format tree -- ./prog   for how many bytes
  lbtrace stacks --pid 4711 --func 'parse_*' --format folded -o run.folded   a flame graph
  lbtrace stacks --each --kernel ext4_sync_fs   from which functions of the kernel, and of programs
  lbtrace stacks run.lbt --top 10   of a capture: of stacks -o, or attach --stack N -o
"""


def instead(words: Sequence[str]) -> ModuleType | None:
    """Return the command that is meant where a capture is named."""
    if not answers.names_capture(words):
        return None
    from lbtrace.commands import stacks_of_capture

    return stacks_of_capture


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    values = answers.arguments(parser, STACKS, keyed=False)
    values.add_argument(
        "--sum",
        metavar="EXPR",
        type=nonempty,
        help="add up this integer instead of calls: arg0, size, retval, duration",
    )
    values.add_argument(
        "--each",
        action="store_true",
        help="show each call with its stack, processor and thread; list, jsonl or lbt",
    )
    values.add_argument(
        "--off-cpu",
        metavar="TIME",
        nargs="?",
        type=least,
        default=0,
        const=1,
        help="where threads are blocked (for TIME at least), and how long until they run again, in"
        " place of calls",
    )
    attach.add_unwind(values)


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    if args.each and args.off_cpu:
        raise UsageError(
            "--off-cpu adds up stretches, and --each shows calls", "leave one of them out"
        )
    for name in ("sum", "top", "interval"):
        if args.each and vars(args)[name]:
            raise UsageError(
                f"--each adds up nothing, as --{name} asks for", "leave one of them out"
            )
    if args.each:
        args.action, args.args, args.stack, args.cpu = "send", 0, CALLERS, True
        args.formats = EACH
        args.returns = "none" if not args.where else args.returns
        return attach.run(args)
    return answers.run(args, "stacks", args.sum, "sum")
