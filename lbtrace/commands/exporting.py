"""Exports a capture into any format."""

from __future__ import annotations

import argparse

from lbtrace.capture import Capture, read_capture
from lbtrace.commands.destination import Destination
from lbtrace.commands.ending import LOST
from lbtrace.commands.output import describe, open_output, render
from lbtrace.commands.progress import Progress
from lbtrace.commands.streams import has_colors, report
from lbtrace.errors import UsageError
from lbtrace.model import Summary
from lbtrace.sinks import Format, format_for


def run(args: argparse.Namespace) -> int:
    """Export; `LOST` under ``--strict`` when the account shows losses."""
    chosen = format_for(args.format, args.output, captures=False)
    if chosen.is_capture:
        raise UsageError("a capture is a capture already", "copy it, or choose another --format")
    with read_capture(args.capture, salvage=args.salvage) as capture:
        summary = _export(capture, chosen, args)
    report(describe(summary) + [f"  left out: {line}" for line in capture.left_out])
    missing = summary.losses.events or summary.interrupted or capture.left_out
    return LOST if args.strict and missing else 0


def _export(capture: Capture, chosen: Format, args: argparse.Namespace) -> Summary:
    sink_class = chosen.load()
    destination = Destination(args.output, force=args.force, kept=[args.capture])
    with (
        open_output(destination, binary=sink_class.binary) as stream,
        Progress(not destination.is_stdout) as progress,
    ):
        return render(
            capture.plan,
            capture.batches(),
            sink_class(stream, capture.plan, color=has_colors(stream), shows_cpu=args.cpu),
            lambda: (capture.losses, not capture.complete),
            max_depth=args.max_depth,
            after_batch=lambda matcher, _: progress.show(
                matcher.calls, capture.position / capture.size
            ),
        )
