"""``lbtrace export``: a capture into any format."""

from __future__ import annotations

import argparse
import os
import sys
from time import monotonic

from lbtrace.calls import CallMatcher
from lbtrace.capture import Capture, read_capture
from lbtrace.commands.output import describe, open_output, render
from lbtrace.errors import UsageError
from lbtrace.model import Summary
from lbtrace.sinks import FORMATS, Format, format_for

_NAMES = [row.name for row in FORMATS.values() if not row.is_capture]

LOST = 3
"""Exit status: events were lost, and ``--strict`` was given."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("capture", metavar="CAPTURE", help="what attach -o NAME.lbt wrote")
    parser.add_argument(
        "--format", metavar="NAME", help=f"{', '.join(_NAMES)} (default: by the suffix, or tree)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write here, not to stdout")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--max-depth", metavar="N", type=_natural, help="show calls less than N deep"
    )
    parser.add_argument(
        "--strict", action="store_true", help=f"exit with {LOST} if anything is missing"
    )


def run(args: argparse.Namespace) -> int:
    """Export; `LOST` under ``--strict`` when the account shows losses."""
    chosen = format_for(args.format, args.output)
    if chosen.is_capture:
        raise UsageError("a capture is a capture already", "copy it, or choose another --format")
    with read_capture(args.capture) as capture:
        if args.output and os.path.exists(args.output):
            _refuse_same(args.capture, args.output)
        summary = _export(capture, chosen, args)
    print("\n".join(describe(summary)), file=sys.stderr)
    missing = summary.losses.events or summary.interrupted
    return LOST if args.strict and missing else 0


def _export(capture: Capture, chosen: Format, args: argparse.Namespace) -> Summary:
    sink_class = chosen.load()
    with open_output(args.output, binary=sink_class.binary, force=args.force) as stream:
        color = stream.isatty() and "NO_COLOR" not in os.environ
        with _Progress(capture, bool(args.output)) as progress:
            return render(
                capture.plan,
                capture.batches(),
                sink_class(stream, capture.plan, color=color),
                lambda: (capture.losses, not capture.complete),
                max_depth=args.max_depth,
                after_batch=progress.show,
            )


def _refuse_same(capture: str, output: str) -> None:
    if os.path.samefile(capture, output):
        raise UsageError("the output is the capture itself", "choose another name with -o")


def _natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


class _Progress:
    """A line on stderr, rewritten while a file is being made; none when
    nobody looks at it."""

    _PERIOD = 0.1

    def __init__(self, capture: Capture, to_file: bool) -> None:
        self._capture = capture
        self._shown = to_file and sys.stderr.isatty()
        self._due = monotonic() + self._PERIOD

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, matcher: CallMatcher) -> None:
        """Show how far the export has come, at most ten times a second."""
        if not self._shown or (now := monotonic()) < self._due:
            return
        self._due = now + self._PERIOD
        share = self._capture.position / self._capture.size
        bar = "█" * round(share * 30)
        line = f"\r{bar:░<30} {share:4.0%}  {matcher.calls:,} calls"
        print(line, end="", file=sys.stderr, flush=True)
