"""Opens the output and renders batches into it, for attach and export."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from lbtrace.calls.matcher import CallMatcher
from lbtrace.commands.account import losses_of
from lbtrace.commands.destination import Destination
from lbtrace.commands.streams import Output, Stalled, has_colors, naming
from lbtrace.errors import OutputError, TargetError
from lbtrace.model import Addition, Aggregates, Batch, Losses, Plan, Summary
from lbtrace.model.events import Counted
from lbtrace.model.wire import count_events
from lbtrace.sinks.base import Sink
from lbtrace.sinks.layout import Layout
from lbtrace.system.collecting import uncollected
from lbtrace.text import counted

if TYPE_CHECKING:
    from lbtrace.answers.tally import Asked
    from lbtrace.sinks.tallied import Tallied

CAUSES = {
    "ring_full_entry": "the ring was full (entries)",
    "ring_full_return": "the ring was full (returns)",
    "ring_full_point": "the ring was full (other probes)",
    "nested_miss": "a probe hit inside a probe",
    "return_depth": "more than 64 calls open in a thread",
    "unhooked": "returns of kernel functions, more calls open than the kernel keeps",
    "string_fault": "strings in unreadable memory",
    "blob_too_long": "values too long",
    "stacks": "no room for the callers of calls",
    "switch_missed": "switches of threads that the kernel did not report",
    "uncounted": "no room to count",
    "unwritten": "not yet written when Ctrl-C ended the trace",
}
"""`Losses` in words."""


ON_TERMINAL = 1000
"""Rows of a table that are printed on a terminal, unless more are asked for: printing tens of
thousands takes a second."""

COUNTED: dict[Counted, tuple[str, str]] = {
    **{"call": ("call", "calls"), "point": ("point", "points")},
    "stretch": ("stretch off the CPU", "stretches off the CPU"),
}


@contextmanager
def open_output(
    destination: Destination, *, binary: bool, gives_up: Callable[[], bool] = lambda: False
) -> Iterator[IO[Any]]:
    """The stream to write to, which creates the file.

    Binary streams are unbuffered, text is UTF-8. Raises `OutputError` when it cannot be
    created, for what fails while it is written (a half-written file stays), and where something
    else has removed or changed the file meanwhile.
    `BrokenPipeError` passes through. With ``gives_up``, writing may raise `Stalled`.
    """
    name = destination.name
    descriptor, own = destination.open(), not destination.is_stdout
    raw = Output(descriptor, name, closefd=own, gives_up=gives_up)
    stream: IO[Any] = cast(IO[Any], raw)
    if not binary:
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw, 1 << 17),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
        )
    try:
        try:
            yield stream
        except TargetError:  # nothing was run
            destination.discard()
            raise
        with naming(name), suppress(Stalled):
            stream.flush()
            destination.check(descriptor, raw.written)
            stream.close()
    finally:
        with suppress(OSError, OutputError, Stalled):  # the first error is the one to report
            stream.close()


def make_sink(
    kind: type[Sink], stream: IO[Any], plan: Plan, args: Namespace, **options: Any
) -> Sink:
    """Return a sink that writes to ``stream`` as the options of the command line choose
    (`lbtrace.commands.options.look`), and further ones of its own."""
    top = vars(args).get("top") or (ON_TERMINAL if kind.renews and stream.isatty() else None)
    layout = Layout(has_colors(stream, args.color), args.cpu, args.time, top)
    to: Any = stream
    if kind.may_be_cut and not args.wrap and stream.isatty():
        from lbtrace.commands.fitting import FittedLines  # imported here: few write to a terminal

        to = FittedLines(stream)
    sink = kind(to, plan, layout, **options)
    asked = vars(args).get("asked")
    return tallied(sink, plan, asked) if asked else sink


def tallied(sink: Sink, plan: Plan, asked: Asked) -> Tallied:
    """Return what counts calls that are sent, as is ``asked``, for a sink of tables."""
    from lbtrace.answers.fast_tally import FastTally  # imported here: most show all calls
    from lbtrace.sinks.tallied import Tallied

    return Tallied(sink, plan, FastTally(plan, asked))


def render(
    plan: Plan,
    batches: Iterable[Batch | Aggregates | Addition],
    sink: Sink,
    account: Callable[[], tuple[Losses, bool]],
    *,
    damaged: Callable[[], bool] = lambda: False,
    losses_known: Callable[[], bool] = lambda: True,
    max_depth: int | None = None,
    after_batch: Callable[[CallMatcher, Batch], None] | None = None,
    on_aggregates: Callable[[Aggregates], None] = lambda _: None,
) -> Summary:
    """Drive batches through the matcher into a sink, to its end.

    ``account`` returns, when the batches have ended, what was lost and whether the trace was
    interrupted, ``damaged`` whether parts of its capture could not be read, ``losses_known``
    whether that has all that was lost. ``after_batch`` is called after each: for progress, or to
    flush the sink of a live trace, ``on_aggregates`` with what was aggregated so far. Where the
    output raises `Stalled`, it gets no end: what was not written whole counts as lost, all that the
    batches still bring included.
    """
    matcher = _matcher(plan, sink, max_depth)
    aggregated = Aggregates(0)
    calls = points = unwritten = 0
    batches = iter(batches)
    batch: Batch | Aggregates | Addition = aggregated
    try:
        sink.begin()
        for batch in batches:
            if isinstance(batch, Aggregates):
                aggregated = batch
                on_aggregates(batch)
                continue
            if isinstance(batch, Addition):
                plan = plan.grown(batch)
                matcher.grow(plan)
                if batch.probes:
                    sink.grow(plan)
                continue
            if batch.gap:
                matcher.finish()  # what was missed may hold the ends of all calls
            matcher.feed(batch)
            if after_batch is not None:
                after_batch(matcher, batch)
            calls, points = matcher.calls, matcher.points
        matcher.finish()
        if aggregated.rows:
            sink.aggregates(aggregated)
    except Stalled:
        unwritten = count_all(chain([batch], batches))
    lost, interrupted = account()
    lost = replace(lost, unwritten=lost.unwritten + unwritten)
    summary = Summary(
        calls=calls,
        losses=losses_of(lost, matcher),
        processes=matcher.processes,
        threads=matcher.threads,
        interrupted=interrupted,
        damaged=damaged(),
        losses_known=losses_known(),
        counted=sum(row.count for row in aggregated.rows) if plan.aggregates else None,
        points=points,
        counts=plan.counts,
        calls_kernel=plan.calls_kernel,
    )
    with suppress(Stalled), uncollected():
        sink.end(summary)
    return sink.summary(summary)


def count_all(batches: Iterable[Batch | Aggregates | Addition]) -> int:
    """Return how many events all these hold."""
    return sum(count_events(batch) for batch in batches if isinstance(batch, Batch))


def _matcher(plan: Plan, sink: Sink, max_depth: int | None) -> CallMatcher:
    asks_more = plan.off_cpu or (plan.stack_depth and sink.needs_callers)
    if not sink.takes_fast_batches or sink.layout.shows_cpu or asks_more:
        return CallMatcher(plan, sink, max_depth=max_depth)
    from lbtrace.calls.fast_path import FastMatcher

    return FastMatcher(plan, sink, max_depth=max_depth)


def describe(summary: Summary) -> list[str]:
    """The lines that summarize a trace for the user."""
    threads = counted(summary.threads, "thread")
    processes = counted(summary.processes, "process", "processes")
    losses = summary.losses
    lost = f"{counted(losses.events, 'event')} lost" if losses.events else "nothing lost"
    if not summary.losses_known:
        lost = f"at least {lost}" if losses.events else "losses not known"
    if summary.damaged and (losses.events or summary.losses_known):
        lost = f"{lost} by the trace, but the capture is damaged"
    elif summary.damaged:
        lost = f"{lost}, and the capture is damaged"
    seen = f"{count_shown(summary.calls, summary.points)} in {threads} of {processes}"
    if summary.counted is not None:
        seen = counted(summary.counted, *COUNTED[summary.counts]) + " counted"
    lines = [f"{seen}, {lost}"]
    for cause, words in CAUSES.items():
        if number := getattr(losses, cause):
            lines.append(f"  {words}: {number:,}")
    lines += _uncompared(losses, calls_kernel=summary.calls_kernel)
    if number := losses.unsplit:
        calls = counted(number, "call")
        lines.append(f"  {calls} left out, of which it is not known how long they were off the CPU")
    if number := losses.uncomputed:
        what = counted(number, "computation")
        lines.append(f"  {what} without a result, divided by 0 or shifted too far")
    if number := losses.in_interrupt:
        lines.append(f"  {counted(number, 'call')} of kernel functions by interrupts left out")
    if summary.interrupted:
        lines.append("  the capture was interrupted: what followed its last batch is missing")
    if not summary.losses_known:
        lines.append("  its counts of lost events and values are missing: more may have been lost")
    return lines


def count_shown(calls: int, points: int) -> str:
    """So many calls and points, in words, without those of which there are none."""
    words = [counted(calls, "call")] if calls or not points else []
    return " and ".join([*words, counted(points, "point")] if points else words)


def _uncompared(losses: Losses, *, calls_kernel: bool) -> list[str]:
    """What conditions on results and durations could not be about."""
    tails, others = losses.uncompared_tail, losses.uncompared_open
    if not tails + others:
        return []
    jumped = [f"{counted(tails, 'tail call')} (`lbtrace help returns`)"] if tails else []
    how = "that did not return" if calls_kernel else "left by exceptions or still open"
    left = [f"{others:,} {how}"] if others else []
    calls = counted(tails + others, "call")
    return [f"  {calls} left out, without a result or duration: {', '.join([*jumped, *left])}"]
