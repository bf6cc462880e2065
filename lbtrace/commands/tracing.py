"""Plans what ``lbtrace attach`` was asked for, and shows the plan or traces."""

from __future__ import annotations

import argparse

from lbtrace.commands.streams import report, say
from lbtrace.errors import UsageError
from lbtrace.model import Target
from lbtrace.naming import NAMING
from lbtrace.probes import PROBES
from lbtrace.session.prepare import prepare
from lbtrace.session.request import Request
from lbtrace.sinks import format_for, formats_of
from lbtrace.system.user import choose
from lbtrace.text import clean
from lbtrace.validation import split_listed

CHOSEN = [each for each in Request.__struct_fields__ if each not in ("target", "named")]

OPTIONS = {"binaries": "binary", "patterns": "func", "providers": "provider"}
"""The options that are called otherwise than what they choose."""


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or `LOST` under ``--strict``."""
    target = _target(args)
    formats = vars(args).get("formats") or formats_of(args.action)
    chosen = format_for(args.format, args.output, formats=formats)
    prepared = prepare(_request(target, args), cache=not args.no_cache)
    if not args.dry_run and any(PROBES[probe.source].tried for probe in prepared.plan.probes):
        from lbtrace.bpf.links import check_works  # imported here: few plans need what may not be

        check_works(prepared.plan.probes)
    if not args.quiet:
        say((*_switch(target, args), *prepared.notes, *prepared.plan.notes))
    if args.dry_run:
        if args.output and not args.quiet:
            say([f"--dry-run shows the plan, and writes no {args.output}"])
        from lbtrace.commands.show import plan_lines

        for line in plan_lines(prepared.plan):
            print(clean(line))
        return 0
    if args.verbose:
        from lbtrace.commands.show import plan_lines

        report(plan_lines(prepared.plan))
    from lbtrace.commands import live  # imported here: a plan is shown without it

    return live.run(prepared, chosen, args)


def _request(target: Target, args: argparse.Namespace) -> Request:
    """What the options of the same names choose, or of those in `OPTIONS`."""
    given = {**vars(args), "where": args.where or ""}
    options = {name: OPTIONS.get(name, name) for name in CHOSEN}
    chosen = {name: given[each] for name, each in options.items() if each in given}
    lists = {name: tuple(value) for name, value in chosen.items() if isinstance(value, list)}
    lists |= {name: split_listed(lists[name]) for name in ("patterns", "within", "exclude")}
    named = {name: tuple(given[name]) for name in NAMING if name != "func" and given[name]}
    return Request(target=target, named=named, **chosen | lists)


def _target(args: argparse.Namespace) -> Target:
    """Which processes are traced."""
    which = [f"--{name}" for name in ("pid", "cgroup", "all") if vars(args)[name]]
    which += ["a command"] if args.command else []
    if len(which) > 1:
        raise UsageError(f"{which[0]} and {which[1]} exclude each other", "give one of them")
    if not args.command and (args.user or args.kill):
        given = " and ".join(
            name for name, value in (("--user", args.user), ("--kill", args.kill)) if value
        )
        verb = "are" if " and " in given else "is"
        if args.pid:
            raise UsageError(
                f"{given} {verb} about a command, and --pid names a process that runs already",
                f"leave {given} out, or give a command after -- in place of --pid",
            )
        raise UsageError(f"{given} {verb} about a command", "give one after --")
    if args.until_last and not (args.command or args.follow):
        raise UsageError("--until-last needs followed processes", "add --follow, or a command")
    if args.follow and not (args.pid or args.command):
        raise UsageError(
            "--follow is about a process and those it forks",
            "add --pid; without one, every process is traced that runs the binary",
        )
    if args.pid:
        return Target(tuple(dict.fromkeys(args.pid)), follow=args.follow)
    if not args.command:
        return Target(cgroup=args.cgroup or "", every=args.all)
    return Target(command=tuple(args.command), user=choose(args.user or ""))


def _switch(target: Target, args: argparse.Namespace) -> list[str]:
    """A note that the command runs as another user without ``--user``."""
    if args.user or not target.user:
        return []
    return [f"runs {target.command[0]} as {target.user}, who called sudo (--user root: as root)"]
