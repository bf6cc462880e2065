"""``lbtrace export``: a capture into any format."""

from __future__ import annotations

import argparse

from lbtrace.commands.ending import LOST
from lbtrace.commands.options import look, nanoseconds, natural, nonempty, repeatable, slow
from lbtrace.sinks import FORMATS

_NAMES = [row.name for row in FORMATS.values() if not row.is_capture]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_files(
        parser, f"{', '.join(_NAMES)} (of counts and stacks also theirs) (default: by the suffix)"
    )
    parser.add_argument(
        "--max-depth",
        metavar="N",
        type=natural,
        help="show calls less than N deep (default: as the trace was to)",
    )
    add_choice(parser, ", with all below them, and those around them")
    look(parser)
    add_account(parser)


def add_files(parser: argparse.ArgumentParser, formats: str) -> None:
    """Add what is read and written."""
    add_capture(parser)
    parser.add_argument("--format", metavar="NAME", help=formats)
    add_output(parser)
    parser.add_argument(
        "--top", metavar="N", type=natural, help="of counts and stacks: show the first N rows"
    )


def add_capture(parser: argparse.ArgumentParser) -> None:
    """Add the file that is read."""
    parser.add_argument(
        "capture", metavar="CAPTURE", type=nonempty, help="a file that attach -o NAME.lbt wrote"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the file that is written."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=nonempty, help="write here, not to stdout"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def add_choice(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the options that choose calls."""
    chosen = parser.add_argument_group("which calls", f"those that all options choose{about}")
    repeatable(
        chosen, "--func", "PATTERN", "calls of these functions: a name, a glob or /regex/", "-f"
    )
    chosen.add_argument(
        "--where",
        metavar="EXPR",
        type=nonempty,
        help="calls of which this holds, by the values that were recorded: n > 2 and retval == 1",
    )
    add_span(chosen)
    chosen.add_argument(
        "--slow",
        metavar="TIME",
        type=slow,
        help="calls that took longer: 5ms; PATTERN=5ms: of these functions",
    )


def add_span(chosen: argparse._ArgumentGroup) -> None:
    """Add the options that choose calls by their thread and time."""
    chosen.add_argument(
        "--thread",
        metavar="THREAD",
        type=nonempty,
        help="calls of the thread or goroutine of this number, or of threads of this name",
    )
    chosen.add_argument(
        "--from",
        dest="from_time",
        metavar="TIME",
        type=nanoseconds,
        help="calls that begin so long after the first one: 2s, 500ms",
    )
    chosen.add_argument(
        "--to", dest="to_time", metavar="TIME", type=nanoseconds, help="nothing that begins later"
    )


def add_account(parser: argparse.ArgumentParser) -> None:
    """Add what is said besides."""
    parser.add_argument(
        "--salvage", action="store_true", help="read what can be read of a damaged capture"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="write no notes and no summary")
    parser.add_argument(
        "--strict", action="store_true", help=f"exit with {LOST} if anything is missing"
    )


def run(args: argparse.Namespace) -> int:
    """Export; `LOST` under ``--strict`` when the account shows losses."""
    from lbtrace.commands import exporting  # imported here: --help and wrong options need no more

    return exporting.run(args)
