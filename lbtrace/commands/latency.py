"""``lbtrace latency``: how long calls take."""

from __future__ import annotations

import argparse

from lbtrace.commands import answers

MEANT = "{options} -- {program}"
COMMAND = True

EPILOG = """\
examples:
  lbtrace latency --func 'parse_*' -- ./prog
  lbtrace latency --pid 4711 --syscall 'read,write' --duration 10s
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    answers.arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or ``LOST`` under ``--strict``."""
    return answers.run(args, "duration")
