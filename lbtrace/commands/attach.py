"""``lbtrace attach``: trace calls, live or into a file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any, BinaryIO, cast, get_args

from lbtrace import seccomp
from lbtrace.arch.places import Detail
from lbtrace.calls.lives import Lives
from lbtrace.commands.control import signals
from lbtrace.commands.options import count, natural, seconds, size, whole
from lbtrace.commands.output import describe, open_output, render
from lbtrace.commands.progress import Progress, Steps
from lbtrace.errors import UsageError
from lbtrace.model import Batch, Plan, Summary, Target
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.returns import Returns
from lbtrace.plan.showing import parse
from lbtrace.process import beside, executable, mapped_file
from lbtrace.session import Options, Session
from lbtrace.sinks import FORMATS, Format, format_for

COMMAND = True
"""A command may follow ``--``."""

LONG = 5.0
"""Seconds of detaching that are told in advance."""

LOST = 3
"""Exit status: something was lost, and ``--strict`` was given."""

EPILOG = """\
examples:
  lbtrace attach --binary ./fib --func fib          every process that runs ./fib
  lbtrace attach --func fib -- ./fib 4              start ./fib 4, trace it, exit with its status
  lbtrace attach --pid 4711 --func 'parse_*'        a running process
  lbtrace attach --binary ./a --binary ./b --func 'f*' -- ./run.sh   several programs
  lbtrace attach --func '*' -o run.lbt -- ./fib 4   a capture, for lbtrace export
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.usage = "lbtrace attach --func PATTERN [OPTION ...] [-- COMMAND [ARG ...]]"
    what = parser.add_argument_group("what")
    what.add_argument(
        "--binary",
        metavar="PATH",
        action="append",
        default=[],
        help="program or library; a bare name is looked up (repeatable)",
    )
    what.add_argument("--pid", metavar="PID", type=natural, help="only this process")
    what.add_argument(
        "--follow", action="store_true", help="with --pid: also the processes it forks"
    )
    which = parser.add_argument_group("which functions")
    which.add_argument(
        "--func",
        metavar="PATTERN",
        action="append",
        required=True,
        help="a name, a glob or /regex/, with @BINARY of that one only (repeatable)",
    )
    which.add_argument("--args", metavar="N", type=count, help="arguments to show: N, none or auto")
    which.add_argument(
        "--returns",
        choices=get_args(Returns),
        default="auto",
        help="how returns are seen (default: auto)",
    )
    values = parser.add_argument_group("values")
    values.add_argument(
        "--arg",
        metavar="EXPR",
        action="append",
        default=[],
        help="show this instead: str(arg0), key=node->key, retval (repeatable)",
    )
    values.add_argument(
        "--where", metavar="EXPR", help="only calls for which this holds: arg0 > 5 and retval != 0"
    )
    values.add_argument(
        "--depth", metavar="N", type=whole, default=0, help="follow pointers N deep (default 0)"
    )
    values.add_argument(
        "--strings",
        metavar="N",
        type=natural,
        default=64,
        help="bytes of a string to show (default 64)",
    )
    shape = parser.add_argument_group("shape and end")
    shape.add_argument("--max-depth", metavar="N", type=natural, help="show calls less than N deep")
    shape.add_argument("--duration", metavar="TIME", type=seconds, help="end after 10s, 500ms, 2m")
    shape.add_argument(
        "--max-events", metavar="N", type=natural, help="end after N entries and returns"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", metavar="NAME", help=f"{', '.join(FORMATS)} (default: by the suffix, or tree)"
    )
    output.add_argument("-o", "--output", metavar="FILE", help="write here, not to stdout")
    output.add_argument(
        "--force", action="store_true", help="replace FILE; allow more than 50,000 functions"
    )
    output.add_argument("--quiet", action="store_true", help="no notes and no summary on stderr")
    output.add_argument(
        "--strict", action="store_true", help=f"exit with {LOST} if anything was lost"
    )
    output.add_argument("--dry-run", action="store_true", help="show the plan, attach nothing")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--ring-size",
        metavar="SIZE",
        type=size,
        default="8M",
        help="of the ring buffer (default 8M)",
    )
    how.add_argument(
        "--mode",
        choices=("session", "multi", "plain"),
        help="how probes are attached (default: the cheapest the kernel has)",
    )
    parser.set_defaults(command=[])


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or `LOST` under ``--strict``."""
    target, binaries = _target(args)
    chosen = format_for(args.format, args.output)
    hazard = seccomp.hazard()
    selection = Selection(
        tuple(args.func),
        args.args,
        args.returns,
        args.force,
        hazard,
        beside=beside(target),
        detail=Detail(args.depth, args.strings),
        request=parse(args.arg, args.where or ""),
    )
    plan = make_plan(binaries, selection)
    if not args.quiet:
        _say(plan.notes)
    if args.dry_run:
        from lbtrace.commands.show import plan_lines

        print("\n".join(plan_lines(plan)))
        return 0
    options = Options(args.ring_size, args.duration, args.max_events, args.mode)
    with ExitStack() as stack:
        binary = chosen.is_capture or chosen.load().binary
        stream = stack.enter_context(open_output(args.output, binary=binary, force=args.force))
        if chosen.is_capture and stream.isatty():
            raise UsageError("a capture is not for a terminal", "name a file with -o, or redirect")
        session = Session(plan, target, options)
        attaching = Steps("attaching: {} of {} steps; Ctrl-C gives up")

        def show(done: int, total: int) -> None:
            if done == 0 and session.detach_seconds > LONG and not args.quiet:
                _say([_slow(session.detach_seconds)])
            attaching.show(done, total)

        session.on_attaching = show
        stack.enter_context(session)
        attaching.end()
        stack.enter_context(signals(session))
        if session.child is None and not args.quiet:
            _say([_waiting(plan, target)])
        detaching = Steps("detached {} of {} probes; Ctrl-C leaves the rest to the kernel")
        session.on_detaching = detaching.show
        stack.callback(detaching.end)
        trace = _capture if chosen.is_capture else _trace
        summary = trace(session, stream, chosen, args)
        status = 0
        if session.child is not None:
            status = session.child.wait()
    if not args.quiet:
        _say(describe(summary))
    return status or (LOST if args.strict and summary.losses.events else 0)


def _target(args: argparse.Namespace) -> tuple[Target, list[str]]:
    """Which processes, and the paths of the files to trace."""
    if args.pid and args.command:
        raise UsageError("--pid and a command exclude each other", "give one of them")
    if args.command:
        return Target(command=tuple(args.command)), args.binary or args.command[:1]
    if args.pid:
        named = [mapped_file(args.pid, name) for name in args.binary]
        return Target(pid=args.pid, follow=args.follow), named or [executable(args.pid)]
    if args.binary:
        return Target(), args.binary
    raise UsageError(
        "nothing to trace is named", "give --binary PATH, --pid PID, or a command after --"
    )


def _trace(session: Session, stream: IO[Any], chosen: Format, args: argparse.Namespace) -> Summary:
    color = stream.isatty() and "NO_COLOR" not in os.environ
    sink = chosen.load()(stream, session.plan, color=color)
    progress = Progress(bool(args.output))

    def live() -> Iterator[Batch]:
        for batch in session.batches():
            yield batch
            if not batch.events and not args.output:
                sink.flush()
                stream.flush()

    with progress:
        return render(
            session.plan,
            live(),
            sink,
            lambda: (session.losses(), False),
            max_depth=args.max_depth,
            after_batch=lambda matcher: progress.show(matcher.calls),
        )


def _capture(session: Session, stream: IO[Any], _: Format, args: argparse.Namespace) -> Summary:
    from lbtrace.capture import CaptureWriter

    writer = CaptureWriter(cast(BinaryIO, stream), session.plan)
    summary = Summary()
    threads: set[tuple[int, int]] = set()
    lives = Lives()
    with Progress(bool(args.output)) as progress:
        for batch in session.batches():
            if batch.events:
                writer.write(batch)
            summary.calls += batch.entries
            for thread in batch.threads:
                threads.add((thread.pid, thread.tid))
                lives.note(thread)
            progress.show(summary.calls)
        summary.losses = session.losses()
        writer.finish(summary.losses)
    summary.threads = len(threads) + lives.threads
    summary.processes = len({pid for pid, _ in threads}) + lives.processes
    return summary


def _slow(seconds: float) -> str:
    return (
        f"detaching may take about {seconds:.0f} s: the kernel detaches plain probes one"
        " by one (from 6.6 on it has better ones)"
    )


def _waiting(plan: Plan, target: Target) -> str:
    functions = f"{len(plan.functions):,} function{'s' * (len(plan.functions) != 1)}"
    paths = " and ".join(binary.path for binary in plan.binaries)
    them = "it" if len(plan.binaries) == 1 else "them"
    where = f"process {target.pid}" if target.pid else f"every process that runs {them}"
    return f"tracing {functions} of {paths} in {where}; Ctrl-C ends"


def _say(lines: tuple[str, ...] | list[str]) -> None:
    for line in lines:
        print(line if line.startswith(" ") else f"lbtrace: {line}", file=sys.stderr)
