"""``lbtrace doctor``: what this machine can do, what is missing, what is dangerous."""

from __future__ import annotations

import argparse

MEANT = "--binary {program} {options}"
"""How a binary is named that was given without ``--binary``."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--binary",
        metavar="PATH",
        help="show what is dangerous about this program or library, and how its returns are seen",
    )
    parser.add_argument(
        "--json", action="store_true", help="write the report as JSON, for programs"
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 when functions can be traced here, else 1; 0 of a binary."""
    from lbtrace.commands import diagnosis  # imported here: --help and wrong options need no more

    return diagnosis.run(args)
