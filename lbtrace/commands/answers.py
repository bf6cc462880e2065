"""What commands share whose answer is a table that the kernel makes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lbtrace.commands import attach
from lbtrace.commands.options import natural, nonempty, seconds
from lbtrace.errors import UsageError
from lbtrace.sinks import TABLES

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

CAPTURE = ".lbt"


def arguments(
    parser: argparse.ArgumentParser, formats: Iterable[str] = TABLES, *, keyed: bool = True
) -> _ArgumentGroup:
    """Add the options, and return the group of those about values. Other values than function and
    process may be the key where it is ``keyed``."""
    parser.usage = attach.USAGE.replace("lbtrace attach", parser.prog)
    attach.add_selection(parser)
    values = parser.add_argument_group("values")
    if keyed:
        add_keys(values)
    attach.add_conditions(values)
    attach.add_ends(parser.add_argument_group("end"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        metavar="NAME",
        help=f"{', '.join(formats)} (default: by the suffix, or the first)",
    )
    output.add_argument(
        "--interval",
        metavar="TIME",
        type=seconds,
        help="in a pipe or a file: write what each 1s has added; on a terminal: renew the table so"
        " often",
    )
    output.add_argument("--top", metavar="N", type=natural, help="show the first N rows")
    attach.add_output(output)
    attach.add_ways(parser)
    parser.set_defaults(
        **{"command": [], "args": None, "arg": [], "strings": 127},
        **{"max_depth": None, "max_events": None, "cpu": False, "slow": None},
        columns=[],
        time=None,
        color="never",
        wrap=True,
    )
    return values


def add_keys(values: _ArgumentGroup) -> None:
    """Add the option that says what rows are by."""
    values.add_argument(
        "--by",
        metavar="EXPR",
        type=nonempty,
        action="append",
        default=[],
        help="count by this, not by function and process: path, str(arg0), retval, comm, func"
        " (up to four, with commas)",
    )


def add_hist(values: _ArgumentGroup, help: str) -> None:
    """Add the option that names the value whose distribution is shown."""
    values.add_argument("--hist", metavar="EXPR", type=nonempty, help=help)


def add_values(values: _ArgumentGroup) -> None:
    """Add the options that say what is shown of counted calls."""
    add_hist(values, "show how this integer is distributed: arg0, retval, node->key")
    for how, meant in (("sum", "the sum"), ("min", "the least"), ("max", "the most")):
        _add_column(values, how, meant)
    _add_column(values, "avg", "the average")


def _add_column(values: _ArgumentGroup, how: str, meant: str) -> None:
    values.add_argument(
        f"--{how}",
        metavar="EXPR",
        dest="columns",
        type=lambda text: f"{how}({nonempty(text)})",
        action="append",
        help=f"add {meant} of this integer (repeatable; up to four, with commas)",
    )


def check_values(args: argparse.Namespace) -> None:
    """Raise `UsageError` where both a distribution and columns are asked for."""
    if args.hist and args.columns:
        how = args.columns[0].partition("(")[0]
        raise UsageError(
            f"--hist and --{how} exclude each other", "leave one out: --hist shows the total, too"
        )


def names_capture(words: Sequence[str]) -> bool:
    """Return whether the words of a command line name a capture to read: it has other options."""
    words = words[: words.index("--")] if "--" in words else words
    return any(
        word.endswith(CAPTURE) and before not in ("-o", "--output") and word[0] != "-"
        for before, word in zip(("", *words), words, strict=False)
    )


def hide(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Leave options out of the help that the command refuses."""
    for action in parser._actions:
        if action.dest in names:
            action.help = argparse.SUPPRESS


def run(args: argparse.Namespace, action: str, value: str | None, option: str) -> int:
    """Do an action with a value, if an ``option`` gave one; return what `attach.run` does."""
    args.action, args.arg = action, [value] if value else []
    try:
        return attach.run(args)
    except UsageError as error:
        error.rename("arg", option)
        if "once for each" in error.hint:
            error.advise(f"--{option} takes one value")
        raise
