"""``lbtrace count CAPTURE``: what ``lbtrace count`` shows, of calls that were recorded."""

from __future__ import annotations

import argparse

from lbtrace.commands import answers, tables_of_capture

EPILOG = """\
examples:
  lbtrace count run.lbt --by path,retval --sum size   of what attach -o run.lbt has recorded
  lbtrace count run.lbt --func malloc --hist size
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    answers.add_values(tables_of_capture.arguments(parser))


def run(args: argparse.Namespace) -> int:
    """Show the table; `LOST` under ``--strict`` when the account shows losses."""
    answers.check_values(args)
    return tables_of_capture.run(args, args.hist or "")
