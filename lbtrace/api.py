"""Tracing from Python: what ``lbtrace attach`` does, for programs.

with lbtrace.trace(command=["./fib", "4"], functions=["fib"]) as session:
    for call in session.calls():
        print(call)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TypeAlias, get_args

from msgspec.structs import replace

from lbtrace.errors import UsageError
from lbtrace.live_trace import Trace
from lbtrace.model import SENDING, Target
from lbtrace.model.choices import Returns
from lbtrace.model.plan import Unwind
from lbtrace.model.wire_limits import ACTIONS
from lbtrace.naming import NAMING
from lbtrace.session.options import Options, check_aggregating, check_options
from lbtrace.session.prepare import prepare
from lbtrace.session.request import Request
from lbtrace.session.session import Session
from lbtrace.system.user import choose
from lbtrace.validation import (
    ARGUMENTS,
    CALLERS,
    POINTERS,
    TEXT,
    check_boolean,
    check_choice,
    check_command,
    check_number,
    check_paths,
    check_patterns,
    check_pids,
    check_text,
    check_texts,
)

StrPath: TypeAlias = str | PathLike[str]


def trace(
    *,
    functions: str | Sequence[str] = (),
    source: str | Sequence[str] = (),
    lines: str | Sequence[str] = (),
    places: str | Sequence[str] = (),
    usdt: str | Sequence[str] = (),
    syscalls: str | Sequence[str] = (),
    tracepoints: str | Sequence[str] = (),
    kernel: str | Sequence[str] = (),
    within: str | Sequence[str] = (),
    providers: StrPath | Sequence[StrPath] = (),
    locals: bool = False,
    inlined: bool = False,
    exclude: str | Sequence[str] = (),
    libcalls: bool = False,
    binary: StrPath | Sequence[StrPath] | None = None,
    pid: int | Iterable[int] | None = None,
    cgroup: StrPath = "",
    all: bool = False,
    command: Sequence[StrPath] = (),
    args: int | None = None,
    arg: str | Sequence[str] = (),
    where: str = "",
    errors: bool = False,
    off_cpu: int = 0,
    slow: int = 0,
    depth: int = 0,
    strings: int = 64,
    full_names: bool = False,
    returns: Returns = "auto",
    max_depth: int | None = None,
    follow: bool = False,
    user: str = "",
    force: bool = False,
    unsafe: bool = False,
    action: str = "send",
    by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    stack: int = 0,
    unwind: Unwind = "tables",
    srcline: bool = False,
    cache: bool = True,
    options: Options | None = None,
) -> Trace:
    """Plan a trace of ``functions``, and return it as a context manager that traces.

    Traced is a ``command``, a list of words, which is started (with the processes it forks), a
    running process ``pid``, or several (with ``follow`` also those they fork), or every process
    that runs ``binary``, which may be several. With a command or a pid, that narrows to these
    files. Or the processes in a ``cgroup`` (version 2) and below it, or ``all`` of the machine, but
    this one.

    ``functions``: names, globs or ``/regular expressions/``, each with ``@BINARY`` at its end of
    that file only, commas between. ``source``: source files whose functions are traced as well:
    ends of paths, with globs (``"trace.c"``, ``"src/*.c"``), which needs debug information.
    ``lines``: source lines (``"server.c:312"``), and ``places``: addresses of instructions in files
    (``"./prog:0x1149"``), seen as calls whose ``end`` is ``point``; ``arg`` shows variables there,
    ``locals`` all in scope. ``usdt``: markers in files (``"PROVIDER:NAME"``), seen alike, with
    their arguments, pairs as calls; ``providers``: files that define names and types of arguments
    (docs/markers.md). ``syscalls``, ``tracepoints``, ``kernel``: docs/kernel.md. ``inlined``: also
    points where the functions were inlined. ``libcalls``: also the functions of libraries that the
    program calls, as far as it makes the call. ``exclude``: functions to leave out, as ``"!NAME"``
    in ``functions`` does. ``within``: functions below whose calls all happens that is recorded
    (docs/within.md). ``args``: how many arguments to read, at most 64; None those of the prototype,
    without debug information one. ``arg``: expressions to show instead (``"key=str(arg0)"``),
    ``where`` one that must hold of a call (``"arg0 > 5 and retval != 0"``), in the kernel;
    ``errors``: only calls whose result is an error (docs/expressions.md). ``slow``: only calls that
    took more than so many ns, with all below and around them. ``off_cpu``: how long a call
    was ``blocked`` and ``runnable``, and points where its thread was blocked for so many ns.
    ``depth``: how many pointers are followed, 5 at most. ``strings``: how many bytes of a string
    are read, 4,095 at most. ``returns``: how returns are seen (docs/returns.md): ``"auto"``,
    ``"sites"``, ``"none"`` or ``"uretprobe"``, refused where it may crash the program, but not if
    ``unsafe``. ``max_depth``: calls so deep are left out. ``user``: whom the command runs as (who
    called sudo). ``force``: above 50,000 functions, too. ``cache``: a kept plan is taken if nothing
    changed. ``action``: ``"send"`` calls, or ``"count"`` (`Trace.counts`), ``by`` expressions, with
    ``columns`` such as ``"sum(n)"`` (docs/answers.md). ``stack``: so many callers of each call are
    shown (`Call.callers`), found as ``unwind`` says, with ``srcline`` also inlined functions, and
    lines (docs/stacks.md). ``full_names``: C++ in full.
    ``options``: see `Options`.

    Planning reads files; ``with`` or ``async with`` starts and attaches. Any thread may trace.

    Raises `UsageError` where arguments are wrong, `NoMatchError` where a pattern selects nothing,
    `BinaryError` and `TargetError` where a file or process cannot be traced. Entering raises
    `KernelError`. Needs Linux 5.10 and CAP_SYS_ADMIN, from 6.6 on just CAP_BPF and CAP_PERFMON.
    """
    patterns = check_patterns("functions", functions, 'give names: functions=["parse_*", "main"]')
    given: dict[str, object] = {"source": source, "lines": lines, "places": places, "usdt": usdt}
    given |= {"syscalls": syscalls, "tracepoints": tracepoints, "kernel": kernel}
    named = {
        name: found
        for name, each in NAMING.items()
        if each.keyword in given
        and (found := check_texts(each.keyword, given[each.keyword], each.example))
    }
    check_boolean("libcalls", libcalls)
    if not (patterns or named or libcalls or (off_cpu and action == "stacks")):
        raise UsageError("functions is empty", 'give names, or "*" for all')
    definitions = check_paths("providers", providers, "give the paths of definitions")
    binaries = check_paths("binary", () if binary is None else binary, "give the path of a file")
    flags = {"force": force, "cache": cache, "unsafe": unsafe, "locals": locals, "inlined": inlined}
    for name, value in flags.items():
        check_boolean(name, value)
    if max_depth is not None:
        check_number("max_depth", max_depth, 1)
    if options is not None:
        check_options(options)
    actions = ("send", *(name for name in ACTIONS if name not in SENDING))
    if check_choice("action", action, actions) != "send":
        check_aggregating(max_depth, options)
    elif by or columns:
        raise UsageError("by and columns are about only what is counted", 'add action="count"')
    target = _target(pid, command, follow, user, cgroup, every=all)
    if not (binaries or target.pids or target.command or target.cgroup or target.every):
        raise UsageError("nothing to trace is named", "give a command, a pid, a cgroup or a binary")
    if options and options.until_last and not (target.command or follow):
        raise UsageError("until_last is about followed processes", "add follow=True, or a command")
    request = Request(
        target=target,
        binaries=binaries,
        patterns=patterns,
        named=named,
        locals=locals,
        providers=definitions,
        within=check_patterns("within", within, 'give names of functions: within=["traceme"]'),
        inlined=inlined,
        libcalls=libcalls,
        exclude=check_patterns("exclude", exclude, 'give names: exclude=["std::*"]'),
        args=None if args is None else check_number("args", args, 0, ARGUMENTS),
        arg=check_texts("arg", arg, 'give expressions: arg=["str(arg0)", "key=node->key"]'),
        where=check_text("where", where, 'give an expression: where="n > 5"', empty=True),
        errors=check_boolean("errors", errors),
        off_cpu=check_number("off_cpu", off_cpu, 0),
        depth=check_number("depth", depth, 0, POINTERS),
        strings=check_number("strings", strings, 1, TEXT),
        full_names=full_names,
        returns=check_choice("returns", returns, get_args(Returns)),
        force=force,
        action=action,
        by=check_texts("by", by, 'give expressions: by=["path", "retval"]'),
        columns=check_texts("columns", columns, 'give columns: columns=["sum(n)", "max(n)"]'),
        mode=options.mode if options else None,
        unsafe=unsafe,
    )
    prepared = prepare(request, cache=cache)
    plan = replace(
        prepared.plan,
        notes=(*prepared.notes, *prepared.plan.notes),
        stack_depth=check_number("stack", stack, 0, CALLERS),
        unwind=check_choice("unwind", unwind, get_args(Unwind)),
        srcline=check_boolean("srcline", srcline),
    )
    session = Session(plan, target, options, prepared.files, prepared.reach, prepared.later)
    if not check_number("slow", slow, 0):
        return Trace(session, max_depth)
    if returns == "none" or plan.aggregates or (options and options.max_events):
        raise UsageError("slow is about calls whose returns are shown", "leave slow= out")
    from lbtrace.calls.slow import SlowCalls  # imported here: most show all calls

    return Trace(session, max_depth, SlowCalls(plan, slow))


def _target(
    pid: int | Iterable[int] | None,
    command: Sequence[StrPath],
    follow: bool,
    user: str,
    cgroup: StrPath,
    *,
    every: bool,
) -> Target:
    """Which processes are traced."""
    check_boolean("all", every)
    group = "".join(check_paths("cgroup", cgroup or (), "give the path of one"))
    words = check_command(command)
    check_boolean("follow", follow)
    check_text("user", user, "give the name of a user", empty=True)
    if (pid is not None) + bool(words) + bool(group) + every > 1:
        raise UsageError("pid, command, cgroup and all exclude each other", "give one of them")
    if user and not words:
        raise UsageError("a user needs a command to run", 'give one: command=["./prog"]')
    if follow and pid is None and not words:
        raise UsageError("follow is about a process and those it forks", "give its pid")
    pids = () if pid is None else check_pids(pid)
    return Target(pids, words, follow, choose(user) if words else "", group, every)
