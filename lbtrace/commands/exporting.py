"""Exports a capture into any format."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias

from lbtrace.capture import Capture, read_capture
from lbtrace.commands.destination import Destination
from lbtrace.commands.ending import LOST
from lbtrace.commands.output import count_shown, describe, make_sink, open_output, render, tallied
from lbtrace.commands.progress import Progress
from lbtrace.commands.streams import report, say
from lbtrace.errors import UsageError
from lbtrace.model import SENDING, Addition, Aggregates, Batch, Plan, Summary
from lbtrace.plan.traced_names import CALLED, named
from lbtrace.sinks import FORMATS, Format, format_for, formats_of
from lbtrace.sinks.base import Sink
from lbtrace.text import counted

if TYPE_CHECKING:
    from lbtrace.answers.tally import Asked
    from lbtrace.calls.slow import SlowCalls
    from lbtrace.expressions.recorded import RecordedTest
    from lbtrace.sinks.chosen import Identity
    from lbtrace.sinks.filtered import Filter, Filtered
    from lbtrace.sinks.tallied import Tallied

Batches: TypeAlias = "Iterable[Batch | Aggregates | Addition]"

MOST_NOTES = 100
"""Warnings of a trace that are shown, at most; each of them is cut when the capture is read."""


def run(args: argparse.Namespace) -> int:
    """Export; `LOST` under ``--strict`` when the account shows losses."""
    with read_capture(args.capture, salvage=args.salvage) as capture:
        aggregated = next((each for each in capture.plan.actions if each not in SENDING), "")
        formats = FORMATS
        if aggregated:
            own = formats_of(aggregated)
            formats = {**own, **FORMATS, **own}  # the first one of these is the default
            check_whole(capture, args)
        elif args.top:
            raise UsageError(
                "--top is about counts and stacks, and the capture holds calls",
                f"write: lbtrace report {args.capture} --top {args.top}",
            )
        return write(capture, formats, args)


def check_whole(capture: Capture, args: argparse.Namespace) -> None:
    """Raise `UsageError` where calls are chosen of a capture that has none."""
    given = {"--func": args.func, "--where": args.where, "--thread": args.thread}
    given["--slow"] = args.slow
    given |= {"--from": args.from_time, "--to": args.to_time}
    for option, value in given.items():
        if value is not None and value != []:
            raise UsageError(
                f"{option} chooses calls, and {capture.path} holds what the kernel has counted",
                "leave it out, or choose while it is traced",
            )


def write(
    capture: Capture,
    formats: Mapping[str, Format],
    args: argparse.Namespace,
    asked: Asked | None = None,
    **options: Any,
) -> int:
    """Give the calls that ``args`` choose to the sink that they choose of ``formats``, or what is
    ``asked`` of them; return the exit status."""
    chosen = format_for(args.format, args.output, captures=False, formats=formats)
    if chosen.is_capture:
        raise UsageError("a capture is a capture already", "copy it, or choose another --format")
    sink = chosen.load()
    destination = Destination(args.output, force=args.force, kept=[args.capture])
    if sink.binary and destination.is_terminal:
        raise UsageError(f"{chosen.name} is not for a terminal", "name a file with -o, or redirect")
    if args.time not in (None, "delta") and not capture.plan.clock:
        raise UsageError("the capture does not say when it began", "choose --time delta")
    counting: Tallied | None = None
    choice = Choice(capture, args)

    tell_notes(capture, args)
    with (
        open_output(destination, binary=sink.binary) as stream,
        Progress(not destination.is_stdout) as progress,
    ):
        whole = make_sink(sink, stream, capture.plan, args, **options)
        if asked is not None:
            whole = counting = tallied(whole, capture.plan, asked)
        max_depth = vars(args).get("max_depth")
        summary = drive(capture, choice.before(whole), progress, max_depth, choice.batches())
    shown = choice.describe()
    if counting:
        summary, shown = counting.summary(summary), [*counting.describe(), *choice.describe_slow()]
    return tell_summary(capture, summary, args, shown)


class Choice:
    """Which calls of a capture the options choose."""

    def __init__(self, capture: Capture, args: argparse.Namespace) -> None:
        self._capture = capture
        self._alone = bool(vars(args).get("alone"))
        self._test = _test(args)
        self._filter = _filter(capture, args, self._test)
        self._slow = slow_calls(capture.plan, args.slow, args.func) if args.slow else None
        self._made: list[Filtered] = []

    def batches(self) -> Batches | None:
        """Those that are left of the capture's where slow calls are asked for."""
        return self._slow.filter(self._capture.batches()) if self._slow else None

    def before(self, sink: Sink) -> Sink:
        """What gets all calls, and gives the sink those that are chosen."""
        if self._filter is None:
            return sink
        self._made.append(_filtered(sink, self._capture.plan, self._filter, alone=self._alone))
        return self._made[-1]

    def describe(self) -> list[str]:
        """How many calls there were, and how many were left out, and why."""
        chosen = [*_describe_filtered(self._made), *_describe_test(self._test)]
        return [*chosen, *self.describe_slow()]

    def describe_slow(self) -> list[str]:
        """How many calls were not slow."""
        return self._slow.describe() if self._slow else []


def slow_calls(
    plan: Plan, chosen: tuple[str, int], patterns: Sequence[str] = (), hint: str = CALLED
) -> SlowCalls:
    """What leaves out calls that are not slow. Where there are patterns, only calls of these
    functions are."""
    from lbtrace.calls.slow import SlowCalls  # imported here: most show all calls

    pattern, bound = chosen
    patterns = [pattern] if pattern else patterns
    return SlowCalls(plan, bound, named(plan, patterns, hint) if patterns else None)


def _test(args: argparse.Namespace) -> RecordedTest | None:
    if args.where is None:
        return None
    from lbtrace.expressions.recorded import RecordedTest  # imported here: few ask for it

    return RecordedTest(args.where)


def check_span(args: argparse.Namespace) -> None:
    """Raise `UsageError` where a time ends before it begins."""
    if args.to_time is not None and (args.from_time or 0) > args.to_time:
        raise UsageError("--to is before --from: nothing is between them", "exchange them")


def _filter(capture: Capture, args: argparse.Namespace, test: RecordedTest | None) -> Filter | None:
    """What is chosen of a capture; None for all."""
    check_span(args)
    words = (args.func, args.thread, args.from_time, args.to_time, test)
    if not any(word is not None and word != [] for word in words):
        return None
    from lbtrace.sinks.filtered import Filter  # imported here, as most export the whole

    plan = capture.plan
    functions = named(plan, args.func) if args.func else None
    calls = _calls(capture, test, functions, vars(args).get("max_depth")) if test else None
    return Filter(functions, args.thread, args.from_time or 0, args.to_time, calls)


def _calls(
    capture: Capture, test: RecordedTest, functions: frozenset[str] | None, max_depth: int | None
) -> Set[Identity]:
    """The calls of ``functions`` of which a condition holds: the capture is read twice."""
    from lbtrace.sinks.chosen import Chosen

    chosen = Chosen(capture.plan, test, functions)
    with Progress(wanted=True) as progress:
        drive(capture, chosen, progress, max_depth)
    return chosen.calls


def _describe_test(test: RecordedTest | None) -> list[str]:
    if test is None or not test.uncompared:
        return []
    calls = counted(test.uncompared, "call")
    return [f"  left out: {calls} of which a value that --where names was not recorded whole"]


def _filtered(sink: Sink, plan: Plan, filter: Filter, *, alone: bool) -> Filtered:
    from lbtrace.sinks.filtered import Alone, Filtered

    return (Alone if alone else Filtered)(sink, plan, filter)


def _describe_filtered(made: Sequence[Filtered]) -> list[str]:
    lines = []
    for sink in made:
        lines.append(f"  shown, as the options choose: {count_shown(sink.calls, sink.points)}")
        if sink.lacks_thread:
            lines.append(f"  no call is of a thread {sink.lacks_thread}")
    return lines


def tell_notes(capture: Capture, args: argparse.Namespace) -> None:
    """Say what was to be known of the trace when it began."""
    if not args.quiet:
        say(_shown(capture.notes))


def tell_summary(
    capture: Capture, summary: Summary, args: argparse.Namespace, more: Sequence[str] = ()
) -> int:
    """Say what was to be known later, and what is missing; return the exit status."""
    if not args.quiet:
        say(_shown(capture.remarks))
        report(describe(summary) + [*more, *(f"  left out: {line}" for line in capture.left_out)])
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


def drive(
    capture: Capture,
    sink: Sink,
    progress: Progress,
    max_depth: int | None = None,
    batches: Batches | None = None,
) -> Summary:
    """Give a capture's calls to a sink: of a depth as the trace was to show, by default."""
    return render(
        capture.plan,
        capture.batches() if batches is None else batches,
        sink,
        lambda: (capture.losses, not capture.complete),
        damaged=lambda: bool(capture.left_out),
        losses_known=lambda: capture.losses_known,
        max_depth=max_depth or max(capture.plan.shown_depth, 0) or None,
        after_batch=lambda matcher, _: progress.show(
            matcher.calls, capture.position / capture.size
        ),
    )
