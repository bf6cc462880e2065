"""``lbtrace latency CAPTURE``: what ``lbtrace latency`` shows, of calls that were recorded."""

from __future__ import annotations

import argparse

from lbtrace.commands import answers, tables_of_capture

EPILOG = """\
examples:
  lbtrace latency run.lbt --func 'handle_*'            of what attach -o run.lbt has recorded
  lbtrace latency run.lbt --slow 5ms --by path
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    values = tables_of_capture.arguments(parser)
    answers.add_hist(values, "instead of durations, as lbtrace count --hist")


def run(args: argparse.Namespace) -> int:
    """Show the table; `LOST` under ``--strict`` when the account shows losses."""
    return tables_of_capture.run(args, args.hist or "duration")
