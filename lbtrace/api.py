"""Tracing from Python: what ``lbtrace attach`` does, for programs.

with lbtrace.trace(command=["./fib", "4"], functions=["fib"]) as session:
    for call in session.calls():
        print(call)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from msgspec.structs import replace

from lbtrace.calls import CallMatcher
from lbtrace.calls.iterator import Calls, check_sends, describe_plan
from lbtrace.errors import UsageError
from lbtrace.model import SENDING, Addition, Aggregates, Batch, Call, Losses, Plan, Target
from lbtrace.model.choices import Returns
from lbtrace.model.wire_limits import ACTIONS
from lbtrace.session.options import Options, check_aggregating, check_options
from lbtrace.session.prepare import prepare
from lbtrace.session.request import Request
from lbtrace.session.session import Session
from lbtrace.system.process import Running
from lbtrace.system.user import choose
from lbtrace.validation import (
    ARGUMENTS,
    POINTERS,
    TEXT,
    check_boolean,
    check_choice,
    check_command,
    check_number,
    check_paths,
    check_text,
    check_texts,
)

if TYPE_CHECKING:
    from lbtrace.session.worker import Worker
    from lbtrace.tables import Count

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
    within: str | Sequence[str] = (),
    providers: StrPath | Sequence[StrPath] = (),
    locals: bool = False,
    inlined: bool = False,
    exclude: str | Sequence[str] = (),
    binary: StrPath | Sequence[StrPath] | None = None,
    pid: int | None = None,
    command: Sequence[StrPath] = (),
    args: int | None = None,
    arg: str | Sequence[str] = (),
    where: str = "",
    errors: bool = False,
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
    cache: bool = True,
    options: Options | None = None,
) -> Trace:
    """Plan a trace of ``functions``, and return it as a context manager that traces.

    Traced is a ``command``, a list of words, which is started (with the processes it forks), a
    running process ``pid`` (with ``follow`` also those it forks), or every process that runs
    ``binary``, which may be several. With a command or a pid, that narrows to these files.

    ``functions``: names, globs or ``/regular expressions/``, each with ``@BINARY`` at its end of
    that file only; a string is one of them. ``source``: source files whose functions are traced as
    well: ends of paths, with globs (``"trace.c"``, ``"src/*.c"``), which needs debug information.
    ``lines``: source lines (``"server.c:312"``), and ``places``: addresses of instructions in files
    (``"./prog:0x1149"``), at which the program is seen to come by, as calls whose ``end`` is
    ``point``; ``arg`` shows variables there, ``locals`` all in scope. ``usdt``: markers in files
    (``"PROVIDER:NAME"``), seen alike, with their arguments, pairs of them as calls; ``providers``:
    files that define names and types of arguments (docs/markers.md). ``syscalls``, ``tracepoints``:
    system calls, tracepoints (docs/syscalls.md, tracepoints.md). ``inlined``: also points where the
    functions were inlined. ``exclude``: functions to leave out, as ``"!NAME"`` in ``functions``
    does. ``within``: functions below whose calls all happens that is recorded (docs/within.md).
    ``args``: how many arguments to read, at most 64; None those of the prototype, without debug
    information one. ``arg``: expressions to show instead (``"key=str(arg0)"``), ``where`` one that
    must hold of a call (``"arg0 > 5 and retval != 0"``), in the kernel; ``errors``: only calls
    whose result is an error (docs/values.md). ``depth``: how many pointers are followed, 5 at most.
    ``strings``: how many bytes of a string are read, 4,095 at most. ``returns``: how returns are
    seen (docs/returns.md): ``"auto"``, ``"sites"``, ``"none"`` or ``"uretprobe"``, refused where it
    may crash the program, but not if ``unsafe``. ``max_depth``: calls so deep are left out.
    ``user``: whom the command runs as (who called sudo). ``force`` allows more than 50,000
    functions. ``cache``: a kept plan is taken if nothing has changed. ``action``: ``"send"`` calls,
    or ``"count"`` (`Trace.counts`), ``by`` expressions, with ``columns``: ``"sum(n)"`` (docs/
    answers.md). ``full_names``: C++ in full. ``options``: see `Options`.

    Nothing is started or attached before the result is entered, by ``with`` or ``async with``;
    planning reads the files. Any thread may trace, and several at once.

    Raises `UsageError` where arguments are wrong, `NoMatchError` where a pattern selects nothing,
    `BinaryError` and `TargetError` where a file or process cannot be traced. Entering raises
    `KernelError`. Needs Linux 5.10 and CAP_SYS_ADMIN, from 6.6 on just CAP_BPF and CAP_PERFMON.
    """
    patterns = check_texts("functions", functions, 'give names: functions=["parse_*", "main"]')
    sources = check_texts("source", source, 'give the names of files: source=["trace.c"]')
    points = check_texts("lines", lines, 'give lines of files: lines=["server.c:312"]')
    offsets = check_texts("places", places, 'give addresses in files: places=["./prog:0x1149"]')
    markers = check_texts("usdt", usdt, 'give markers: usdt=["python:gc__*"]')
    calls = check_texts("syscalls", syscalls, 'give names: syscalls=["openat", "read*"]')
    events = check_texts("tracepoints", tracepoints, 'give names: tracepoints="sched:*"')
    if not (patterns or sources or points or offsets or markers or calls or events):
        raise UsageError("functions is empty", 'give names, or "*" for all')
    if inlined and not (patterns or sources):
        raise UsageError("inlined is about functions", "name them in functions or source")
    definitions = check_paths("providers", providers, "give the paths of definitions")
    if definitions and not markers:
        raise UsageError("providers is about markers", "name them in usdt")
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
    target = _target(pid, command, follow, user)
    if not (binaries or target.pid or target.command):
        raise UsageError("nothing to trace is named", "give a command, a pid or a binary")
    if options and options.until_last and not (target.command or follow):
        raise UsageError("until_last is about followed processes", "add follow=True, or a command")
    request = Request(
        target=target,
        binaries=binaries,
        patterns=patterns,
        sources=sources,
        lines=points,
        places=offsets,
        locals=locals,
        markers=markers,
        syscalls=calls,
        tracepoints=events,
        providers=definitions,
        within=check_texts("within", within, 'give names of functions: within=["traceme"]'),
        inlined=inlined,
        exclude=check_texts("exclude", exclude, 'give names: exclude=["std::*"]'),
        args=None if args is None else check_number("args", args, 0, ARGUMENTS),
        arg=check_texts("arg", arg, 'give expressions: arg=["str(arg0)", "key=node->key"]'),
        where=check_text("where", where, 'give an expression: where="n > 5"', empty=True),
        errors=check_boolean("errors", errors),
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
    plan = replace(prepared.plan, notes=(*prepared.notes, *prepared.plan.notes))
    session = Session(plan, target, options, prepared.files, prepared.reach, prepared.later)
    return Trace(session, max_depth)


def _target(pid: int | None, command: Sequence[StrPath], follow: bool, user: str) -> Target:
    """Which processes are traced."""
    words = check_command(command)
    check_boolean("follow", follow)
    check_text("user", user, "give the name of a user", empty=True)
    if pid is not None and words:
        raise UsageError("a pid and a command exclude each other", "give one of them")
    if user and not words:
        raise UsageError("a user needs a command to run", 'give one: command=["./prog"]')
    if follow and pid is None and not words:
        raise UsageError("follow is about a process and those it forks", "give its pid")
    number = 0 if pid is None else check_number("pid", pid, 1)
    return Target(number, words, follow, choose(user) if words else "")


class Trace:
    """A trace, used as a context manager: it runs between entry and exit.

    With asyncio, ``async with`` and ``async for`` do the same and block nothing else. Of the
    methods only `wait`, `counts` and `table` may block; `stop` may be called from any thread.
    `lbtrace.trace` makes traces, each of which can be entered once.
    """

    def __init__(self, session: Session, max_depth: int | None = None) -> None:
        self._session = session
        self._max_depth = max_depth
        self._calls: LiveCalls | None = None
        self._notes: list[str] = []
        self._entered = self._left = False
        self._losses = Losses()
        self._return_depth = 0
        self._stepping = RLock()
        self._worker: Worker | None = None
        session.on_note = self._notes.append

    def __repr__(self) -> str:
        state = "over" if self._left else "running" if self._entered else "not entered"
        return f"<lbtrace.Trace of {describe_plan(self.plan)}: {state}>"

    @property
    def plan(self) -> Plan:
        """What is traced, and how."""
        return self._session.plan

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that a person should read, a line each: what was left out of the plan and
        why, and what has happened to the traced files and processes until now."""
        return (*self.plan.notes, *self._notes)

    def __enter__(self) -> Trace:
        if self._entered:
            raise UsageError(
                "this trace has been entered already", "make another one with lbtrace.trace()"
            )
        self._entered = True
        try:
            self._session.__enter__()
        except BaseException:
            self._left = True
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        with self._stepping:  # another thread may iterate
            if not self._left:
                self._losses = self.losses()
            self._left = True
            self._session.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Trace:
        from lbtrace.session.worker import Worker  # imported here because few use asyncio

        self._worker = Worker()
        return await self._worker.enter(self, self._session.interrupt)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._worker is None:
            raise UsageError("the trace was not entered", "write: async with lbtrace.trace(...)")
        await self._worker.leave(lambda: self.__exit__(kind, error, traceback))

    def calls(self) -> LiveCalls:
        """Return the calls, each when it has ended; innermost calls first.

        For ``for``, and under ``async with`` also for ``async for``. A command starts to run
        with the first step. The iteration ends when the command or process ends, after `stop`,
        or at a bound of the options; calls that are still open then come last, with ``end``
        ``open``. All that this returns is one iterator: each call is seen once. Stepping raises
        `CommandError` where the command cannot be executed, `UsageError` outside of ``with``
        and while another thread steps. Raises `UsageError` if the trace aggregates (`counts`).
        """
        check_sends(self.plan)
        return self._live_calls()

    def _live_calls(self) -> LiveCalls:
        if self._calls is None:
            self._calls = LiveCalls(self, self._max_depth)
        return self._calls

    def counts(self) -> list[Count]:
        """Return how often each function was called, in each process, most often called first.

        Of a trace whose action is ``count``: lets the command run and waits for the end of the
        trace; after that, at once. Raises what stepping raises.
        """
        return self._table("count")

    def table(self) -> list[Any]:
        """Return the rows of what the trace's action aggregates in the kernel; of ``count`` those
        of `counts`. Waits for the end of the trace, and raises, as that does.
        """
        return self._table()

    def _table(self, action: str = "") -> list[Any]:
        from lbtrace.tables import check_aggregates, table_of  # imported here: most show calls

        check_aggregates(self.plan, action)
        calls = self._live_calls()
        for _ in calls:
            pass
        return table_of(self.plan, calls.aggregates, action)

    def stop(self) -> None:
        """End `calls` soon, with all that happened until now. From any thread, or a signal
        handler."""
        self._session.stop()

    def losses(self) -> Losses:
        """Return what was lost until now, by cause; after the trace, in all."""
        if self._left or not self._session.attached:
            return self._losses
        found = self._session.losses()
        return replace(found, return_depth=max(found.return_depth, self._return_depth))

    def running(self) -> list[Running]:
        """Return the processes of the command, or that the process ``pid`` forked, that still run:
        each with ``pid`` and ``name``. Raises `UsageError` outside of ``with``."""
        self._check_running()
        return self._session.running()

    def wait(self) -> int | None:
        """Wait for the command's end: its exit status, 128 + n for signal n.

        None where no command was given. Where the trace ended first, that may take long. Raises
        `UsageError` where the command is not running yet, as `calls` lets it run.
        """
        child = self._session.child
        if child is None:
            return None
        if not child.released:
            raise UsageError(
                "the command is held until calls are read, and would not end",
                "iterate calls() before wait()",
            )
        return child.wait()

    def _batches(self) -> Iterator[Batch | Aggregates | Addition]:
        """What the session yields, as long as this is entered."""
        batches = self._session.batches()
        while True:
            with self._stepping:
                self._check_running()
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _note_returns(self, matcher: CallMatcher) -> None:
        self._return_depth = matcher.return_depth

    def _check_running(self) -> None:
        if self._left:
            raise UsageError("the trace is over", "do this inside of the with statement")
        if not self._entered:
            raise UsageError("the trace has not begun", "write: with lbtrace.trace(...) as session")


class LiveCalls(Calls):
    """The calls of a trace that runs: an iterator, and an asynchronous one under
    ``async with``. Each call is yielded when it has ended."""

    def __init__(self, trace: Trace, max_depth: int | None) -> None:
        super().__init__(trace.plan, trace._batches(), max_depth, trace._note_returns)
        self._trace = trace

    def __aiter__(self) -> LiveCalls:
        return self

    async def __anext__(self) -> Call:
        while (call := next(self._piece, None)) is None:
            worker = self._trace._worker
            if worker is None:
                raise UsageError(
                    "the trace was not entered by async with", "write: async with trace(...)"
                )
            if not await worker.step(self._step):
                raise StopAsyncIteration
        return call
