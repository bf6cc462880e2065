"""``lbtrace count CAPTURE`` and ``lbtrace latency CAPTURE``: the same tables of calls that were
recorded."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from lbtrace.commands import answers, export
from lbtrace.errors import UsageError
from lbtrace.sinks import TABLES


def arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options of both; return the group of those about values."""
    export.add_files(parser, ", ".join(name for name in TABLES if name != "lbt"))
    values = parser.add_argument_group("values")
    answers.add_keys(values)
    export.add_choice(parser, "")
    export.add_account(parser)
    parser.set_defaults(alone=True, cpu=False, time=None, color="never", wrap=True, columns=[])
    return values


def run(args: argparse.Namespace, hist: str) -> int:
    """Show the table, of how calls are distributed by ``hist`` or else of their number; `LOST`
    under ``--strict`` when the account shows losses."""
    from lbtrace.answers.tally import ask  # imported here: --help needs no more
    from lbtrace.capture import read_capture
    from lbtrace.commands import exporting
    from lbtrace.plan.traced_names import named

    with read_capture(args.capture, salvage=args.salvage) as capture:
        if "send" not in capture.plan.actions:
            raise UsageError(
                f"{args.capture} holds what was aggregated in the kernel, no calls",
                f"write: lbtrace export {args.capture}",
            )
        functions = named(capture.plan, args.func) if args.func else None
        bound = -1
        if args.slow and not args.slow.pattern:
            bound, args.slow = args.slow.time, None
        exporting.check_span(args)
        asked = replace(
            ask(args.by, args.columns, hist, args.where or "", functions, bound),
            **{"thread": args.thread, "begin": args.from_time or 0, "end": args.to_time},
        )
        args.func, args.where = [], None
        args.thread = args.from_time = args.to_time = None
        return exporting.write(capture, TABLES, args, asked)
