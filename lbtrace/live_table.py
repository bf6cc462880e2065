"""Tables that the kernel makes while a program runs, for programs in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from lbtrace.api import trace
from lbtrace.errors import UsageError
from lbtrace.live_trace import Trace
from lbtrace.model import Aggregates, Losses
from lbtrace.session.request import slower
from lbtrace.tables import Table, aggregated
from lbtrace.tables.shown import ShownTable
from lbtrace.validation import check_number, check_text

if TYPE_CHECKING:
    from lbtrace.captured_table import CapturedTable

StrPath: TypeAlias = str | PathLike[str]

_Table = TypeVar("_Table", bound="LiveTable")

COLUMNS = ("hist", "sum", "min", "max", "avg")
"""What `count` takes besides."""

WHERE = 'give an expression: where="n > 5"'

TEXT = 127
"""Bytes of a text by which is counted."""


@overload
def count(path: StrPath, **asked: Any) -> CapturedTable: ...


@overload
def count(**asked: Any) -> LiveTable: ...


def count(
    path: StrPath | None = None,
    *,
    by: str | Sequence[str] = (),
    sum: str | Sequence[str] = (),
    min: str | Sequence[str] = (),
    max: str | Sequence[str] = (),
    avg: str | Sequence[str] = (),
    hist: str = "",
    **selected: Any,
) -> LiveTable | CapturedTable:
    """Count calls in the kernel: return a table of `Count`, by function and process or ``by``
    expressions, with columns of integers (docs/answers.md). With ``hist`` its rows say how that
    integer is distributed (`lbtrace.tables.histogram.Histogram`). ``selected`` is what else
    `lbtrace.trace` takes: ``functions``, ``command``, ``where``.

    Of the capture at ``path`` it makes the same table. ``selected`` is ``functions``, ``where``,
    and what `lbtrace.captured_table.tabulate` takes then.

    Raises what `lbtrace.trace` raises, or `CaptureError`.
    """
    given = {"sum": sum, "min": min, "max": max, "avg": avg}
    if hist and (named := [how for how, each in given.items() if each]):
        raise UsageError(
            f"hist= and {named[0]}= exclude each other", "leave one out: hist= has the total, too"
        )
    columns = [
        f"{how}({each})"
        for how, named in given.items()
        for each in ([named] if isinstance(named, str) else named)
    ]
    if path is not None:
        return _of_capture(path, by, columns, hist, **selected)
    _check(selected, "count", "what it shows is said by by=, sum=, hist=; else use lbtrace.trace()")
    if hist:
        selected["arg"] = hist
    action = "histogram" if hist else "count"
    selected.setdefault("strings", TEXT)
    try:
        return LiveTable(trace(action=action, by=by, columns=columns, **selected))
    except UsageError as error:
        error.rename("arg", "hist")
        raise


def _of_capture(
    path: StrPath,
    by: str | Sequence[str],
    columns: Sequence[str],
    hist: str,
    *,
    where: str = "",
    slow: int = -1,
    **selected: Any,
) -> CapturedTable:
    from lbtrace.answers.tally import ask  # imported here: traces need neither
    from lbtrace.captured_table import tabulate

    known = ("functions", "thread", "begin", "end")
    for name in selected:
        if name not in known:
            raise UsageError(
                f"a capture is named, and {name}= is about a trace",
                f"leave one out; calls are chosen by where=, {'=, '.join(known)}=",
            )
    keys = [by] if isinstance(by, str) else by
    return tabulate(path, ask(keys if by else (), columns, hist, where, bound=slow), **selected)


@overload
def latency(path: StrPath, **asked: Any) -> CapturedTable: ...


@overload
def latency(**asked: Any) -> LiveTable: ...


def latency(
    path: StrPath | None = None, *, by: str | Sequence[str] = (), slow: int = 0, **selected: Any
) -> LiveTable | CapturedTable:
    """Return a table of how long calls take, by function and process or ``by`` expressions: see
    `count`, of which this is ``hist="duration"``. ``slow``: only those that took more than so many
    ns."""
    bound = check_number("slow", slow, 0)
    if path is not None:
        return _of_capture(path, by, (), "duration", slow=bound or -1, **selected)
    _check(selected, "latency", "lbtrace.count(hist=...) is about other values", *COLUMNS)
    if bound:
        where = check_text("where", selected.get("where", ""), WHERE, empty=True)
        selected["where"] = slower(where, slow)
    made: LiveTable = count(by=by, hist="duration", **selected)
    return made


def stacks(*, sum: str = "", off_cpu: int = 0, **selected: Any) -> LiveTable:
    """Count in the kernel on which stacks functions are called: return a table of
    `lbtrace.tables.stacks.Stack`, or with ``sum`` of what an integer amounts to there
    (docs/answers.md). With ``off_cpu`` its rows say where threads of a ``command`` or a ``pid``
    were blocked in place of calls, and how long: of stretches of so many ns at least. ``selected``
    is what else `lbtrace.trace` takes: ``functions``, ``command``, ``unwind``. Needs Linux 5.17.

    Raises what `lbtrace.trace` raises.
    """
    _check(selected, "stacks", "what it adds up is said by sum= or off_cpu=; else use trace()")
    if sum:
        selected["arg"] = sum
    try:
        return LiveTable(trace(action="stacks", off_cpu=off_cpu, **selected))
    except UsageError as error:
        error.rename("arg", "sum")
        raise


def _check(selected: Iterable[str], caller: str, hint: str, *columns: str) -> None:
    """Raise `UsageError` where ``selected`` says what the function itself does."""
    for name in selected:
        if name not in (trace.__kwdefaults__ or ()):
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")
        if name in ("action", "arg", "columns", "args", *columns):
            raise UsageError(f"lbtrace.{caller}() takes no {name}=", hint)


class LiveTable(ShownTable):
    """A table that `count`, `latency` or `stacks` makes, read while it runs.

    Within ``with`` it runs, in a thread of its own: `rows` are those of the moment. Afterwards they
    are the last ones. `wait` runs it to its end. ``print(table)`` shows its first rows, a notebook
    as well.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._thread = Thread(target=self._run, daemon=True)
        self._reading = Lock()
        self._last = Aggregates(0)
        self._error: BaseException | None = None

    def __enter__(self: _Table) -> _Table:
        self.trace.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.trace.stop()
        self._thread.join()
        with self._reading:
            self.trace.__exit__(kind, error, traceback)
        if self._error is not None and error is None:
            raise self._error

    def wait(self: _Table) -> _Table:
        """Wait for the end of the command or process, or of the duration, and return this. Outside
        of ``with`` it runs meanwhile. Raises what entering a `Trace` and stepping raise."""
        if not self._thread.ident:
            with self:
                return self.wait()
        self._thread.join()
        return self

    def stop(self) -> None:
        """End the trace soon; from any thread."""
        self.trace.stop()

    @property
    def rows(self) -> list[Any]:
        """The rows of now, or the last ones. Raises `UsageError` before it runs."""
        self._check_running("count")
        with self._reading:
            last = self.trace.aggregated() if self._thread.is_alive() else self._last
        (_, _, rows), *_ = aggregated(self.trace.plan, last)
        return [*rows]

    def losses(self) -> Losses:
        """Return what was lost until now, by cause."""
        with self._reading:
            return self.trace.losses()

    def __repr__(self) -> str:
        if not self._thread.ident:
            return f"<lbtrace.{type(self).__name__}: {self.trace!r}>"
        return super().__repr__()

    def _check_running(self, made_by: str) -> None:
        if not self._thread.ident:
            how = f"write: with lbtrace.{made_by}(...), or wait()"
            raise UsageError("the table is empty", how)

    @property
    def _table(self) -> Table:
        (_, table, _), *_ = aggregated(self.trace.plan, Aggregates(0))
        return table

    def _take(self) -> None:
        """Take what the trace brings, to its end."""
        for batch in self.trace.batches():
            if isinstance(batch, Aggregates):
                self._last = batch

    def _run(self) -> None:
        try:
            self._take()
        except BaseException as error:
            self._error = error
