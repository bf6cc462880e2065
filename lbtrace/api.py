"""Tracing from Python: what the commands do, for programs.

with lbtrace.trace(command=["./fib", "4"], functions=["fib"]) as session:
    for call in session.calls():
        print(call.name, call.args, call.result)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from lbtrace import seccomp
from lbtrace.arch import SHALLOW
from lbtrace.arch.places import Detail
from lbtrace.calls import CallMatcher
from lbtrace.errors import UsageError
from lbtrace.model import Call, Loss, Losses, Plan, Target, Thread
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.returns import Returns
from lbtrace.plan.showing import parse
from lbtrace.process import beside, executable, mapped_file
from lbtrace.session import Options, Session


def trace(
    *,
    functions: Sequence[str],
    binary: str | Sequence[str] | None = None,
    pid: int | None = None,
    command: Sequence[str] = (),
    args: int | None = None,
    arg: Sequence[str] = (),
    where: str = "",
    depth: int = 0,
    strings: int = SHALLOW.limit,
    returns: Returns = "auto",
    max_depth: int | None = None,
    follow: bool = False,
    options: Options | None = None,
) -> Trace:
    """A trace of ``functions`` (names, globs or ``/regular expressions/``).

    The target is a ``command`` that is started (with the processes it forks),
    a running process ``pid`` (with ``follow`` also those it forks), or every
    process that runs ``binary``. With a command or a pid, ``binary`` narrows
    to that file, a library say. It may be several: a program and its libraries,
    or programs that execute each other.

    ``args`` is how many arguments to read, None those of the prototype (one
    without debug information). Each ``arg`` is an expression to show instead
    (``"key=str(arg0)"``), ``where`` one that a call must fulfil (``"arg0 > 5
    and retval != 0"``), compared in the kernel. ``depth`` pointers are
    followed, of a string ``strings`` bytes are read.

    ``returns`` says how returns are seen (see `lbtrace.plan.returns`).
    ``max_depth`` leaves deeper calls out.

    Nothing happens before the result is entered as a context manager. Raises
    `LbtraceError`: of the binary, the pattern and the expressions here, of the
    kernel and the target on entering. Needs Linux 5.10 and CAP_SYS_ADMIN, from
    6.6 on just CAP_BPF and CAP_PERFMON.
    """
    if depth < 0 or strings < 1:
        raise UsageError(
            f"depth={depth}, strings={strings}: is too small",
            "give a depth from 0 and strings from 1 on",
        )
    if bool(pid) and bool(command):
        raise UsageError("a pid and a command exclude each other", "give one of them")
    binaries = [binary] if isinstance(binary, str) else list(binary or ())
    if pid:
        binaries = [mapped_file(pid, name) for name in binaries] or [executable(pid)]
    elif command:
        binaries = binaries or [command[0]]
    elif not binaries:
        raise UsageError("nothing to trace is named", "give binary, pid or command")
    target = Target(pid=pid or 0, command=tuple(command), follow=follow)
    selection = Selection(
        tuple(functions),
        args,
        returns,
        hazard=seccomp.hazard(),
        beside=beside(target),
        detail=Detail(depth, strings),
        request=parse(arg, where),
    )
    plan = make_plan(binaries, selection)
    return Trace(Session(plan, target, options), max_depth)


class Trace:
    """A running trace, from entering it as a context manager to leaving it."""

    def __init__(self, session: Session, max_depth: int | None = None) -> None:
        self._session = session
        self._max_depth = max_depth

    @property
    def plan(self) -> Plan:
        """What is traced, and how."""
        return self._session.plan

    def __enter__(self) -> Trace:
        self._session.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def calls(self) -> Iterator[Call]:
        """The calls, each when it has ended; innermost calls first.

        A command starts to run with the first. The iteration ends when the
        command or process ends, after `stop`, or at a bound of the options;
        calls that are still open then come last, with ``end`` ``open``.
        """
        finished = _Finished()
        matcher = CallMatcher(self.plan, finished, max_depth=self._max_depth)
        for batch in self._session.batches():
            matcher.feed(batch)
            yield from finished.take()
        matcher.finish()
        yield from finished.take()

    def stop(self) -> None:
        """End `calls` soon, with all that happened until now."""
        self._session.stop()

    def losses(self) -> Losses:
        """What was lost until now, by cause."""
        return self._session.losses()

    def wait(self) -> int | None:
        """Wait for the command's end: its exit status, 128 + n for signal n.
        None where no command was given."""
        return self._session.child.wait() if self._session.child else None


class _Finished:
    """Collects the calls that have ended."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def take(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def thread(self, thread: Thread) -> None: ...

    def entry(self, call: Call) -> None: ...

    def exit(self, call: Call) -> None:
        self._calls.append(call)

    def loss(self, loss: Loss) -> None: ...
