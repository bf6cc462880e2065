"""Exports a capture into any format."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from lbtrace.capture import Capture, read_capture
from lbtrace.commands.destination import Destination
from lbtrace.commands.ending import LOST
from lbtrace.commands.output import describe, make_sink, open_output, render
from lbtrace.commands.progress import Progress
from lbtrace.commands.streams import report, say
from lbtrace.errors import UsageError
from lbtrace.model import Summary
from lbtrace.sinks import Format, format_for

MOST_NOTES = 100
"""Warnings of a trace that are shown, at most; each of them is cut when the capture is read."""


def run(args: argparse.Namespace) -> int:
    """Export; `LOST` under ``--strict`` when the account shows losses."""
    chosen = format_for(args.format, args.output, captures=False)
    if chosen.is_capture:
        raise UsageError("a capture is a capture already", "copy it, or choose another --format")
    with read_capture(args.capture, salvage=args.salvage) as capture:
        if args.time not in (None, "delta") and not capture.plan.clock:
            raise UsageError("the capture does not say when it began", "choose --time delta")
        if not args.quiet:
            say(_shown(capture.notes))
        summary = _export(capture, chosen, args)
        if not args.quiet:
            say(_shown(capture.remarks))
    if not args.quiet:
        report(describe(summary) + [f"  left out: {line}" for line in capture.left_out])
    whole = summary.losses_known and not (summary.interrupted or capture.left_out)
    return LOST if args.strict and (summary.losses.events or not whole) else 0


def _shown(notes: Sequence[str]) -> list[str]:
    """The warnings of a trace, each as one of its own, and not more than a person reads: a capture
    may be anybody's."""
    rest = len(notes) - MOST_NOTES
    return [
        *(note.strip() for note in notes[:MOST_NOTES]),
        *([f"{rest:,} more notes of the trace are not shown"] if rest > 1 else []),
        *(["1 more note of the trace is not shown"] if rest == 1 else []),
    ]


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
            make_sink(sink_class, stream, capture.plan, args),
            lambda: (capture.losses, not capture.complete),
            damaged=lambda: bool(capture.left_out),
            losses_known=lambda: capture.losses_known,
            max_depth=args.max_depth or max(capture.plan.shown_depth, 0) or None,
            after_batch=lambda matcher, _: progress.show(
                matcher.calls, capture.position / capture.size
            ),
        )
