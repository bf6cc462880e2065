"""``lbtrace attach``: trace calls, live or into a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lbtrace.commands.ending import LOST
from lbtrace.commands.options import (
    count,
    frames,
    least,
    look,
    natural,
    nonempty,
    pointers,
    processes,
    repeatable,
    seconds,
    size,
    slow,
    text_size,
)
from lbtrace.errors import UsageError
from lbtrace.naming import NAMING, option_of
from lbtrace.sinks import FORMATS

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

MEANT = "{options} -- {program}"
"""How a program is named that was given without ``--``."""

COMMAND = True
"""A command may follow ``--``."""

FIRST = "lbtrace attach [--func PATTERN] [OPTION ...] [-- COMMAND [ARG ...]]"
"""What most write."""

_NAMED = [f"{option_of(name)} {each.values}" for name, each in NAMING.items()]

_INDENT = "\n" + " " * 22

_ROWS = (" | ".join(_NAMED[n : n + 4]) for n in range(0, len(_NAMED), 4))

USAGE = f"lbtrace attach [{f' |{_INDENT}'.join(_ROWS)}]" + "".join(
    (_INDENT, "[OPTION ...]", _INDENT, "[-- COMMAND [ARG ...]]")
)
"""All that can be traced."""

RETURNS = ("auto", "uretprobe", "sites", "none")
"""The values of ``--returns``: those of `lbtrace.model.choices.Returns`."""

EPILOG = """\
examples:
  lbtrace attach -- ./fib 4                         what its own sources define; or lbtrace ./fib 4
  lbtrace attach --binary ./fib --func fib          every process that runs ./fib
  lbtrace attach --func fib -- ./fib 4              start ./fib 4, trace it, exit with its status
  lbtrace attach --pid 4711 --func 'parse_*'        a running process
  lbtrace attach --binary ./a --binary ./b --func 'f*' -- ./run.sh   several programs
  lbtrace attach --func '*' -o run.lbt -- ./fib 4   a capture, for lbtrace export
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.usage = USAGE
    which = add_selection(parser)
    which.add_argument("--args", metavar="N", type=count, help="arguments to show: N, none or auto")
    values = parser.add_argument_group("values")
    values.add_argument(
        "--arg",
        metavar="EXPR",
        action="append",
        default=[],
        help="show this value instead of the arguments: str(arg0), key=node->key, retval"
        " (repeatable)",
    )
    values.add_argument(
        "--locals", action="store_true", help="with --line or --at: show the variables in scope"
    )
    add_conditions(values)
    values.add_argument(
        "--slow",
        metavar="TIME",
        type=slow,
        help="show only calls that took longer, with all below them: 5ms; PATTERN=5ms: of these"
        " functions",
    )
    values.add_argument(
        "--depth",
        metavar="N",
        type=pointers,
        default=0,
        help="follow pointers N deep, five at most (default 0)",
    )
    values.add_argument(
        "--strings",
        metavar="N",
        type=text_size,
        default=64,
        help="bytes of a string to show, up to 4,095 (default 64)",
    )
    values.add_argument(
        "--stack",
        metavar="N",
        type=frames,
        help="show N callers below each call: the stack that led to it (5.17)",
    )
    add_unwind(values)
    shape = parser.add_argument_group("depth and end")
    shape.add_argument("--max-depth", metavar="N", type=natural, help="show calls less than N deep")
    shape.add_argument(
        "--max-events", metavar="N", type=natural, help="end when N calls have ended, or points"
    )
    add_ends(shape)
    shape.add_argument(
        "--off-cpu",
        metavar="TIME",
        nargs="?",
        type=least,
        default=0,
        const=1_000_000,
        help="split durations into running, runnable and blocked; show where a thread was blocked"
        " for TIME (default 1ms)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", metavar="NAME", help=f"{', '.join(FORMATS)} (default: by the suffix, or tree)"
    )
    look(output)
    add_output(output)
    add_ways(parser)
    parser.set_defaults(command=[], action="send")


def add_selection(parser: argparse.ArgumentParser) -> _ArgumentGroup:
    """Add the options that select processes and what is traced of them."""
    what = parser.add_argument_group("what to trace")
    repeatable(what, "--binary", "PATH", "program or library; a bare name is looked up")
    what.add_argument(
        *("-p", "--pid"),
        metavar="PID",
        type=processes,
        action="extend",
        default=[],
        help="trace only this process, or these: 8631,8633 (repeatable)",
    )
    what.add_argument(
        "--follow",
        action="store_true",
        help="with --pid: trace also the processes it forks, as those of a command are",
    )
    what.add_argument(
        "--cgroup",
        metavar="PATH",
        type=nonempty,
        help="the processes in this control group and below it: system.slice/nginx.service",
    )
    what.add_argument(
        "--all",
        action="store_true",
        help="every process of the machine: with --syscall, --tracepoint, --kernel",
    )
    what.add_argument(
        "--user",
        metavar="NAME",
        type=nonempty,
        help="run the command as this user (default: under sudo, its caller)",
    )
    which = parser.add_argument_group("which functions")
    for name, naming in NAMING.items():
        short = ("-f",) if name == "func" else ()
        repeatable(which, option_of(name), naming.values, naming.help, *short)
    repeatable(
        which, "--exclude", "PATTERN", "not these functions; --func '!PATTERN' says the same"
    )
    which.add_argument(
        "--libcalls",
        action="store_true",
        help="calls of the program into its libraries, as ltrace shows them",
    )
    which.add_argument(
        "--inlined",
        action="store_true",
        help="with --func or --source: also where these functions were inlined, as points",
    )
    repeatable(
        which,
        "--provider",
        "FILE",
        "definitions of markers: names and types of their arguments, pairs",
    )
    repeatable(
        which,
        "--within",
        "PATTERN",
        "only what happens below calls of these functions, and these calls",
    )
    which.add_argument(
        "--returns",
        choices=RETURNS,
        default="auto",
        help="how to see returns (default: auto, at the exits of functions)",
    )
    which.add_argument(
        "--unsafe",
        action="store_true",
        help="with --returns uretprobe: also where that may crash the program",
    )
    return which


def add_unwind(values: _ArgumentGroup) -> None:
    """Add those that say how callers are found, and what is shown of them."""
    values.add_argument(
        "--unwind",
        choices=("tables", "fp"),
        help="how to find callers: by tables made of .eh_frame (default), or frame pointers",
    )
    values.add_argument(
        "--srcline",
        action="store_true",
        help="show the lines of callers, and inlined functions among them, by debug information",
    )


def add_conditions(values: _ArgumentGroup) -> None:
    """Add those that select calls, and write names."""
    values.add_argument(
        "--where",
        metavar="EXPR",
        type=nonempty,
        help="show only calls for which this holds: arg0 > 5 and retval != 0",
    )
    values.add_argument(
        "--errors",
        action="store_true",
        help="show only calls that failed: errors of Go and Rust, null, negative numbers, and those"
        " that exceptions and panics left",
    )
    values.add_argument(
        "--full-names",
        action="store_true",
        help="show names of C++ with default arguments of templates and with versions of libraries",
    )


def add_ends(shape: _ArgumentGroup) -> None:
    """Add those that say when a trace ends."""
    shape.add_argument(
        "--duration",
        metavar="TIME",
        type=seconds,
        help="end after 10s, 500ms, 2m or so many seconds; the command continues",
    )
    shape.add_argument(
        "--until-last",
        action="store_true",
        help="end when all followed processes have ended, not just the first",
    )
    shape.add_argument(
        "--kill", action="store_true", help="when the trace ends, end the command and its children"
    )


def add_output(output: _ArgumentGroup) -> None:
    """Add those that say where output goes, and what is said besides."""
    output.add_argument(
        "-o", "--output", metavar="FILE", type=nonempty, help="write here, not to stdout"
    )
    output.add_argument(
        "--force", action="store_true", help="replace FILE; allow more than 50,000 functions"
    )
    output.add_argument("-q", "--quiet", action="store_true", help="write no notes and no summary")
    output.add_argument(
        "--strict", action="store_true", help=f"exit with {LOST} if anything was lost"
    )
    output.add_argument(
        "-v", "--verbose", action="store_true", help="show also the plan, before what is traced"
    )
    output.add_argument("--dry-run", action="store_true", help="show the plan, attach nothing")


def add_ways(parser: argparse.ArgumentParser) -> None:
    """Add those that say how to trace."""
    how = parser.add_argument_group("how to trace")
    how.add_argument(
        "--ring-size",
        metavar="SIZE",
        type=size,
        default="8M",
        help="size of the ring buffer (default 8M)",
    )
    how.add_argument(
        "--no-cache", action="store_true", help="plan anew, though nothing has changed"
    )
    how.add_argument(
        "--mode",
        choices=("session", "multi", "plain"),
        help="how to attach probes (default: the cheapest that the kernel supports)",
    )


def names_functions(args: argparse.Namespace) -> bool:
    """Return whether the options say what is traced of a program."""
    return args.libcalls or any(vars(args)[name] for name in NAMING)


def run(args: argparse.Namespace) -> int:
    """Trace, and return the command's status, 0, or `LOST` under ``--strict``."""
    named = names_functions(args)
    if not (named or vars(args).get("locals") or args.command or args.pid):
        options = ", ".join(map(option_of, NAMING))
        raise UsageError(
            f"nothing says what to trace: a command, --pid, or {options}",
            f"write: {FIRST.replace('attach', args.parser.prog.split()[-1])}",
        )
    if args.slow and args.max_events:
        raise UsageError("--slow and --max-events exclude each other", "end it with --duration")
    if args.slow and args.returns == "none":
        raise UsageError("--slow needs returns, and --returns none sees none", "leave one out")
    given = vars(args)
    for option in filter(given.get, ("unwind", "srcline")):
        if args.action == "send" and not given["stack"]:
            raise UsageError(f"--{option} is about callers, and none is shown", "add --stack 8")
    from lbtrace.commands import tracing  # imported here: --help and wrong options need no more

    return tracing.run(args)
