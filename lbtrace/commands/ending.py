"""How ``lbtrace attach`` ends: its status, and the processes that still run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbtrace.commands.control import Interrupts
    from lbtrace.model import Plan, Summary
    from lbtrace.session.session import Session
    from lbtrace.system.process import Running

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended, as shells report it."""

LOST = 3
"""Exit status: something was lost, and ``--strict`` was given."""

OF_ONE_TRACE = (
    *("pid", "follow", "user"),
    *("duration", "max_events", "until_last", "kill"),
    *("output", "format", "quiet", "dry_run"),
)
"""Options that say which processes are traced, how the trace ends and where it is written. All
others say what is traced and shown, and hold for the trace that continues this one."""

OF_THE_PROGRAM = ("func", "source", "line", "at", "within")
"""Options that name what a program has, unless ``--binary`` names a file. Another program has other
functions; markers are looked for in all that a process loads."""

NAMED = 8
"""At most this many of the processes that still run are named."""


def status_of(
    session: Session, interrupts: Interrupts, summary: Summary, args: argparse.Namespace
) -> int:
    """Return the exit status. lbtrace does not wait for a command that outlives the trace."""
    status = session.child.poll() if session.child else None
    if status is None:
        status = INTERRUPTED if interrupts.insisted else 0
    lost = args.strict and summary.losses.events
    return status or int(session.broken_off) or (LOST if lost else 0)


def killed(session: Session) -> list[str]:
    """Return a line that says which signal has ended the command, if one did that people do not
    send."""
    number = session.child.killed_by if session.child else 0
    if not number:
        return []
    import signal  # imported here because few commands end so

    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        return []
    return [f"{session.target.command[0]} was ended by {signal.Signals(number).name}"]


def going_on(left: Sequence[Running], session: Session, args: argparse.Namespace) -> list[str]:
    """Return lines that name the processes that still run, and say how to continue tracing them."""
    left = [process for process in left if not process.ends_within(0)]
    if not left:
        return []
    import shlex  # imported here because few processes are left

    names = ", ".join(f"{process.pid} ({process.name})" for process in left[:NAMED])
    more = f" and {len(left) - NAMED:,} more" if len(left) > NAMED else ""
    plural = "processes continue" if len(left) > 1 else "process continues"
    same = [process for process in left if _runs(process, session.plan)]
    if not same and (args.binary or not any(getattr(args, name) for name in OF_THE_PROGRAM)):
        same = list(left)
    pid = str((same or left)[0].pid)
    words = [*args.parser.prog.split(), "--pid", pid, "--follow"]
    words += args.parser.words_for(args, OF_ONE_TRACE) if same else ["--func", "NAME"]
    also = "--kill ends them" if session.child else ""
    if session.target_ended and not args.until_last:
        also = "--until-last waits for them" + (f", {also}" if also else "")
    return [
        f"{len(left):,} {plural}, no longer traced: {names}{more}",
        f"  to continue{' with one' if len(left) > 1 else ''}: {shlex.join(words)}",
        *([f"  next time: {also}"] if also else []),
    ]


def untraced_children(pid: int, traced: Collection[int]) -> list[str]:
    """Return a line that names the children of the process ``pid`` that run the same program and
    are not among those ``traced``: servers start processes that do the work."""
    from lbtrace.system.procfs import children_of, directory_of  # here: most traces see calls

    own = f"{directory_of(pid)}/exe"
    found = [str(n) for n in children_of(pid) if n not in traced]
    same = [each for each in found if is_same(f"{directory_of(each)}/exe", own)]
    if not same:
        return []
    more = f" and {len(same) - NAMED:,} more" if len(same) > NAMED else ""
    what = (
        f"child {same[0]} is" if len(same) == 1 else f"children {', '.join(same[:NAMED])}{more} are"
    )
    verb = "traces it" if len(same) == 1 else "traces them"
    return [f"  its {what} not traced: --pid {','.join(same)} {verb}"]


def unloaded(plan: Plan, markers: Sequence[str]) -> list[str]:
    """Return a line for those of the patterns of ``markers`` of which ``plan`` has none at the end:
    the trace has waited for a file that has them."""
    from lbtrace.plan.patterns import matching  # imported here because few trace markers

    known = {function.name for function in plan.functions}
    wanted = [each for each in markers if not matching(known, [each.partition("@")[0]], "usdt")]
    return [f"  {each}: no file that was loaded has this marker" for each in wanted]


def _runs(process: Running, plan: Plan) -> bool:
    """Whether a process runs a program that is traced."""
    from lbtrace.system.procfs import directory_of  # imported here because few processes are left

    return any(is_same(f"{directory_of(process.pid)}/exe", binary.path) for binary in plan.binaries)


def is_same(path: str, other: str) -> bool:
    """Return whether two paths name the same file."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # it is removed, or the process has ended
        return path == other
