"""Traces what was planned, live or into a file."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from msgspec.structs import replace

from lbtrace.calls.matcher import CallMatcher
from lbtrace.commands.account import Account
from lbtrace.commands.caution import caution
from lbtrace.commands.control import signals
from lbtrace.commands.destination import Destination
from lbtrace.commands.ending import (
    going_on,
    is_same,
    killed,
    status_of,
    unloaded,
    untraced_children,
)
from lbtrace.commands.output import count_all, describe, make_sink, open_output, render
from lbtrace.commands.progress import Progress, Steps
from lbtrace.commands.streams import Stalled, say
from lbtrace.commands.waiting import traced_files, waiting
from lbtrace.errors import BinaryError, CommandError, UsageError
from lbtrace.model import Addition, Aggregates, Batch, Losses, Plan, Summary, Target
from lbtrace.session.options import Options
from lbtrace.session.request import Prepared
from lbtrace.session.session import Session
from lbtrace.sinks import Format
from lbtrace.system.priority import hurried
from lbtrace.system.process import Running, end_all
from lbtrace.system.procfs import directory_of
from lbtrace.targets.command import find_command

if TYPE_CHECKING:
    from lbtrace.calls.slow import SlowCalls
    from lbtrace.commands.renewing import Renewal
    from lbtrace.session.single_steps import SingleSteps

Batches: TypeAlias = Iterator[Batch | Aggregates | Addition]
"""What a session yields."""

ASIDE = "what the command prints goes to standard error: the {} is on standard output"

LONG = 5.0
"""Seconds: longer detaching is announced in advance."""


def run(prepared: Prepared, chosen: Format, args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or `LOST` under ``--strict``."""
    target, reach = prepared.target, prepared.reach
    plan = _plan(prepared, chosen, args)
    options = Options(
        args.ring_size,
        args.duration,
        args.max_events,
        args.mode,
        until_last=args.until_last,
        interval=getattr(args, "interval", None) or 1.0,
    )
    destination = Destination(args.output, force=args.force, kept=_kept(plan, target))
    binary = chosen.is_capture or chosen.load().binary
    shown = args.settings(plan) if "settings" in args else {}
    if binary and destination.is_terminal:
        raise UsageError(f"{chosen.name} is not for a terminal", "name a file with -o, or redirect")
    left: list[Running] = []
    with ExitStack() as stack:
        session = Session(plan, target, options, prepared.files, reach, prepared.later)
        stack.push(partial(_name_those_left, left, session, args))
        # What the command prints would stand between the records of a capture (perf does the same).
        session.aside = binary and destination.shares_stdout
        said: list[str] = []
        attaching = _announce(session, said, args)
        stack.callback(attaching.end)
        interrupts = stack.enter_context(signals(session))
        stack.enter_context(session)
        attaching.end()
        stream = stack.enter_context(
            open_output(destination, binary=binary, gives_up=interrupts.give_up_output)
        )
        if not args.quiet:
            probed = {probe.binary for probe in plan.probes}
            paths = [b.path for n, b in enumerate(plan.binaries) if n in probed]
            warned = caution(paths) if reach.everyone else ""
            waits = "" if session.child else waiting(plan, target)
            aside = ASIDE.format("capture" if chosen.is_capture else "table")
            aside = aside if session.child and session.aside else ""
            say([line for line in (warned, waits, aside) if line])
        detaching = Steps("detached {} of {} probes; Ctrl-C leaves the rest to the kernel")
        if not args.quiet:
            session.on_detaching = detaching.show
        stack.callback(detaching.end)
        if args.kill:
            stack.callback(lambda: end_all(session.running))
        trace = partial(_capture, said) if chosen.is_capture else partial(_trace, shown)
        steps = None if args.quiet else _watch_steps(plan, target)
        batches = steps.watch(session.batches()) if steps else session.batches()
        slow, batches = _only_slow(plan, batches, said, args)
        try:
            with hurried():  # what is not read in time is lost
                summary = trace(session, batches, stream, chosen, args)
            status = status_of(session, interrupts, summary, args)
        finally:
            left += [] if args.kill else session.running()
    if not args.quiet:
        say(
            [
                *describe(summary),
                *(slow.describe() if slow else ()),
                *(_describe_steps(steps, session) if steps else ()),
                *(unloaded(session.plan, args.usdt) if session.plan.may_grow else ()),
                *_unseen(summary, session.plan, target, args, left),
                *killed(session),
                *going_on(left, session, args),
            ]
        )
    return status


def _plan(prepared: Prepared, chosen: Format, args: argparse.Namespace) -> Plan:
    """What is traced, and how it is shown. Raises `UsageError` where a capture cannot hold it."""
    notes: tuple[str, ...] = (*prepared.notes, *prepared.plan.notes)
    if chosen.is_capture:
        from lbtrace.plan.functions import tells_left_out  # imported here: the plan may be kept

        # It says later what is said now, unless that is about what else could be traced.
        notes = tuple(note for note in notes if not tells_left_out(note))
    plan = replace(prepared.plan, notes=notes, shown_depth=args.max_depth or 0, **_stacks(args))
    if chosen.is_capture:
        from lbtrace.capture import check_plan

        check_plan(plan)
    return plan


def _stacks(args: argparse.Namespace) -> dict[str, Any]:
    """What of the plan says how stacks are walked and shown, where the command has such options."""
    given = vars(args)
    depth, unwind = given.get("stack") or 0, given.get("unwind") or "tables"
    return {"stack_depth": depth, "unwind": unwind, "srcline": bool(given.get("srcline"))}


def _watch_steps(plan: Plan, target: Target) -> SingleSteps | None:
    """What counts single-stepped exits of one process; None where there are none."""
    if not (target.pids or target.command) or all(probe.site.emulated for probe in plan.probes):
        return None
    from lbtrace.session.single_steps import SingleSteps  # imported here: not all plans have some

    return SingleSteps(plan, target)


def _only_slow(
    plan: Plan, batches: Batches, said: list[str], args: argparse.Namespace
) -> tuple[SlowCalls | None, Batches]:
    """What leaves out calls that are not slow, if that is asked for, and the rest; at its end
    ``said`` has what was left out."""
    if not args.slow:
        return None, batches
    from lbtrace.commands.exporting import slow_calls  # imported here: few ask for it

    slow = slow_calls(plan, args.slow, hint="lbtrace list shows functions; --func traces more")

    def shown() -> Batches:
        yield from slow.filter(batches, live=True)
        said.extend(slow.describe())

    return slow, shown()


def _describe_steps(steps: SingleSteps, session: Session) -> list[str]:
    """What single-stepped exits have cost, and what uretprobes would, if nothing speaks against
    them."""
    cost = steps.measure(*([session.child.pid] if session.child else session.target.pids))
    if cost is None:
        return []
    from lbtrace.elf.image import Image  # imported here, as few traces are so slow
    from lbtrace.session.single_steps import time_hook
    from lbtrace.session.uretprobes import find_objections

    spent, hits, step = cost
    line = (
        f"  about {min(hits * step / spent, 1):.0%} of the program's {spent:.1f} s of processor"
        f" time went into {float(f'{hits:.2g}'):,.0f} single-stepped exits,"
        f" {step * 1e6:.1f} µs each"
    )
    try:
        images = [Image.open(binary.path) for binary in session.plan.traced]
        objects = any(find_objections(images, session.target))
    except BinaryError:  # it has been removed
        objects = True
    if not objects and (hook := time_hook()):
        line += f"; --returns uretprobe would take {hits * hook:.2g} s"
    return [line]


def _name_those_left(
    left: list[Running], session: Session, args: argparse.Namespace, failed: object, *_: object
) -> None:
    """Say after a failure which processes still run."""
    if failed and not args.quiet:
        say(going_on(left, session, args))


def _announce(session: Session, said: list[str], args: argparse.Namespace) -> Steps:
    """Let a session say what the user should know, and keep it in ``said``; how far attaching has
    come is the result."""

    def note(text: str) -> None:
        said.append(text)
        say([text] if session.broken_off or not args.quiet else [])

    session.on_note = note
    attaching = Steps("attaching: {} of {} steps; Ctrl-C gives up")

    def show(done: int, total: int) -> None:
        if done == 0 and session.detach_seconds > LONG and not args.quiet:
            say([_slow(session.detach_seconds)])
        if not args.quiet:
            attaching.show(done, total)

    session.on_attaching = show
    return attaching


def _trace(
    shown: Mapping[str, Any],
    session: Session,
    batches: Batches,
    stream: IO[Any],
    chosen: Format,
    args: argparse.Namespace,
) -> Summary:
    sink = make_sink(chosen.load(), stream, session.plan, args, **shown)
    progress = Progress(bool(args.output))
    renewal: Renewal | None = None
    if sink.renews or args.action != "send" or vars(args).get("interval"):
        from lbtrace.commands.renewing import Renewal  # imported here: most show calls

        renewal = Renewal(sink, stream, args, partial(_end, session))
        session.restless = renewal.looks
    regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)

    def after(matcher: CallMatcher, batch: Batch) -> None:
        progress.show(matcher.calls)
        if renewal:
            renewal.look()
        if not batch.events and not (args.output and regular):
            sink.flush()
            stream.flush()
        elif not regular:
            stream.flush()  # what is lost where its reader stalls is counted by batches

    def account() -> tuple[Losses, bool]:
        if renewal:
            renewal.finish()  # the last table takes its place
        return session.losses(), False

    with progress, renewal or nullcontext():
        return render(
            session.plan,
            batches,
            sink,
            account,
            max_depth=args.max_depth,
            after_batch=after,
            on_aggregates=renewal or (lambda _: None),
        )


def _end(session: Session) -> None:
    session.hurry()
    session.stop()


def _capture(
    said: list[str],
    session: Session,
    batches: Batches,
    stream: IO[Any],
    _: Format,
    args: argparse.Namespace,
) -> Summary:
    from lbtrace.capture import CaptureWriter

    writer = CaptureWriter(cast(BinaryIO, stream), session.plan)
    account = Account(session.plan, deep=args.returns == "uretprobe")

    def note() -> None:
        for text in said:
            writer.note(text)
        said.clear()

    with Progress(bool(args.output)) as progress:
        unwritten = 0
        try:
            for batch in batches:
                if not isinstance(batch, Batch) or batch.events:
                    writer.write(batch)
                note()
                account.note(batch)
                progress.show(account.calls)
        except Stalled:
            unwritten = count_all(chain([batch], batches))
        losses = session.losses()
        losses = replace(losses, unwritten=losses.unwritten + unwritten)
        with suppress(Stalled):
            note()
            writer.finish(losses)
    return account.summary(losses)


def _slow(seconds: float) -> str:
    return (
        f"detaching may take about {seconds:.0f} s: the kernel detaches probes of this kind"
        " one by one"
    )


def _unseen(
    summary: Summary,
    plan: Plan,
    target: Target,
    args: argparse.Namespace,
    left: list[Running],
) -> list[str]:
    """Why there may be no call of a process whose children do the work, or of a command that need
    not run what is traced."""
    run = _program(target)
    seen = summary.calls or summary.points or summary.counted
    if target.pids and not seen:
        traced = {*target.pids, *(process.pid for process in left)}
        return [line for pid in target.pids for line in untraced_children(pid, traced)]
    if (
        seen
        or not run
        or (plan.functions and any(is_same(run, binary.path) for binary in plan.binaries))
    ):
        return []
    if not (paths := " or ".join(traced_files(plan))):
        return []
    how = "as --where demands" if args.where else "while it was traced"
    return [f"  nothing traced of {paths} was reached {how}; perhaps no process ran or loaded it"]


def _program(target: Target) -> str | None:
    """The file that the command executes, if there is one."""
    try:
        return find_command(*target.command) if target.command else None
    except CommandError:
        return None


def _kept(plan: Plan, target: Target) -> list[str]:
    """Files that no output may replace: what is traced, and what is run."""
    command = _program(target)
    running = [f"{directory_of(pid)}/exe" for pid in target.pids]
    return [*(binary.path for binary in plan.binaries), *filter(None, [command]), *running]
