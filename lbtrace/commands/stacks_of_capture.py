"""``lbtrace stacks CAPTURE``: from where functions were called, by what was recorded."""

from __future__ import annotations

import argparse

from lbtrace.commands import export
from lbtrace.commands.options import nonempty
from lbtrace.errors import UsageError
from lbtrace.sinks import EACH, STACKS

EPILOG = """\
examples:
  lbtrace stacks run.lbt --top 10               the stacks with most calls
  lbtrace stacks run.lbt --func malloc --sum size --format tree   who asks for how many bytes
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    export.add_files(parser, f"{', '.join(name for name in STACKS if name != 'lbt')}")
    parser.add_argument(
        "--sum",
        metavar="NAME",
        type=nonempty,
        help="add up this integer instead of calls: an argument, retval, duration",
    )
    parser.add_argument(
        "--each", action="store_true", help="show each call with its stack: list, jsonl"
    )
    export.add_choice(parser, "")
    export.add_account(parser)
    parser.set_defaults(alone=True, cpu=True, time=None, color="never", wrap=True)


def run(args: argparse.Namespace) -> int:
    """Show them; `LOST` under ``--strict`` when the account shows losses."""
    from lbtrace.capture import read_capture  # imported here: --help needs no more
    from lbtrace.commands import exporting

    with read_capture(args.capture, salvage=args.salvage) as capture:
        plan = capture.plan
        if "stacks" in plan.actions:
            exporting.check_whole(capture, args)
            for option in filter(vars(args).get, ("sum", "each")):
                raise UsageError(
                    f"{args.capture} holds stacks that the kernel has counted, no calls",
                    f"leave --{option} out, or give it while it is traced",
                )
        elif args.each and (args.sum or args.top):
            raise UsageError(
                f"--each adds up nothing, as {'--sum' if args.sum else '--top'} asks for",
                "leave one of them out",
            )
        elif not plan.stack_depth:
            raise UsageError(
                f"{args.capture} holds no callers",
                "record them: lbtrace attach --stack 32, or lbtrace stacks; traced callers:"
                f" lbtrace report {args.capture} --by path",
            )
        if args.sum and args.sum not in ("retval", "duration"):
            from lbtrace.answers.report import check_argument

            check_argument(plan, args.sum)
        options = {"value": args.sum} if args.sum else {}
        return exporting.write(capture, EACH if args.each else STACKS, args, **options)
