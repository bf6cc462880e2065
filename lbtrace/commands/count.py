"""``lbtrace count``: how often functions are called, or how a value of them is distributed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from types import ModuleType

from lbtrace.commands import answers
from lbtrace.errors import UsageError
from lbtrace.sinks import STACKS, TABLES

MEANT = "{options} -- {program}"
COMMAND = True

EPILOG = """\
examples:
  lbtrace count --func 'parse_*' -- ./prog          how often each is called
  lbtrace count --pid 4711 --func '*' --top 20      until Ctrl-C
  lbtrace count --func open --by 'str(arg0)' --binary libc.so.6 -- ./prog   by file
  lbtrace count --func malloc --by stack --binary libc.so.6 -- ./prog   as lbtrace stacks
  lbtrace count --func malloc --hist arg0 --binary libc.so.6 -- ./prog   sizes
  lbtrace count run.lbt --by path --sum size       of a capture: of attach -o run.lbt
"""


def instead(words: Sequence[str]) -> ModuleType | None:
    """Return the command that is meant where a capture is named."""
    if not answers.names_capture(words):
        return None
    from lbtrace.commands import count_of_capture

    return count_of_capture


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    answers.add_values(answers.arguments(parser))


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    answers.check_values(args)
    by_stack = args.by == ["stack"]
    if by_stack and args.format in STACKS.keys() - TABLES.keys():
        return _by_stack(args)
    try:
        return answers.run(args, "histogram" if args.hist else "count", args.hist, "hist")
    except UsageError as error:
        if not by_stack or "lbtrace stacks" not in error.hint:
            raise
        return _by_stack(args)


def _by_stack(args: argparse.Namespace) -> int:
    """As ``lbtrace stacks``, where nothing else is called ``stack``."""
    total = re.fullmatch(r"sum\((.*)\)", "".join(args.columns), re.DOTALL)
    if args.hist or (args.columns and not (total and len(args.columns) == 1)):
        raise UsageError("by stack is counted, or one --sum made", "leave other values out")
    args.by, args.columns = [], []
    return answers.run(args, "stacks", total and total[1], "sum")
