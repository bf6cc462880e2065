"""Tables that the kernel makes while a program runs, for programs in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from lbtrace.api import trace
from lbtrace.errors import DependencyError, UsageError
from lbtrace.live_trace import Trace
from lbtrace.model import Aggregates, Losses
from lbtrace.session.request import slower
from lbtrace.tables import aggregated
from lbtrace.tables.table import flat, lines
from lbtrace.validation import check_number, check_text

if TYPE_CHECKING:
    import pandas

_Table = TypeVar("_Table", bound="LiveTable")

SHOWN = 20
"""Rows that are shown of a table that is printed."""

COLUMNS = ("hist", "sum", "min", "max", "avg")
"""What `count` takes besides."""

WHERE = 'give an expression: where="n > 5"'

TEXT = 127
"""Bytes of a text by which is counted."""


def count(
    *,
    by: str | Sequence[str] = (),
    sum: str | Sequence[str] = (),
    min: str | Sequence[str] = (),
    max: str | Sequence[str] = (),
    avg: str | Sequence[str] = (),
    hist: str = "",
    **selected: Any,
) -> LiveTable:
    """Count calls in the kernel: return a table of `Count`, by function and process or ``by``
    expressions, with columns of integers (docs/answers.md). With ``hist`` its rows say how that
    integer is distributed (`lbtrace.tables.histogram.Histogram`). ``selected`` is what else
    `lbtrace.trace` takes: ``functions``, ``command``, ``where``.

    Raises what `lbtrace.trace` raises.
    """
    given = {"sum": sum, "min": min, "max": max, "avg": avg}
    _check(selected, "count", "what it shows is said by by=, sum=, hist=; else use lbtrace.trace()")
    if hist and (named := [how for how, each in given.items() if each]):
        raise UsageError(
            f"hist= and {named[0]}= exclude each other", "leave one out: hist= has the total, too"
        )
    columns = [
        f"{how}({each})"
        for how, named in given.items()
        for each in ([named] if isinstance(named, str) else named)
    ]
    if hist:
        selected["arg"] = hist
    action = "histogram" if hist else "count"
    selected.setdefault("strings", TEXT)
    try:
        return LiveTable(trace(action=action, by=by, columns=columns, **selected))
    except UsageError as error:
        error.rename("arg", "hist")
        raise


def latency(*, by: str | Sequence[str] = (), slow: int = 0, **selected: Any) -> LiveTable:
    """Return a table of how long calls take, by function and process or ``by`` expressions: see
    `count`, of which this is ``hist="duration"``. ``slow``: only those that took more than so many
    ns."""
    _check(selected, "latency", "lbtrace.count(hist=...) is about other values", *COLUMNS)
    if check_number("slow", slow, 0):
        where = check_text("where", selected.get("where", ""), WHERE, empty=True)
        selected["where"] = slower(where, slow)
    return count(by=by, hist="duration", **selected)


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


class LiveTable:
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

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def losses(self) -> Losses:
        """Return what was lost until now, by cause."""
        with self._reading:
            return self.trace.losses()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame of pandas: columns of the key, the count, the others.
        Raises `DependencyError` where pandas is not installed (``pip install 'lbtrace[pandas]'``).
        """
        try:
            import pandas
        except ImportError:
            raise DependencyError(
                "pandas is not installed, or cannot be imported", "pip install 'lbtrace[pandas]'"
            ) from None
        (_, table, _), *_ = aggregated(self.trace.plan, Aggregates(0))
        names, values = flat(table, self.rows)
        return pandas.DataFrame(values, columns=names)

    def __repr__(self) -> str:
        if not self._thread.ident:
            return f"<lbtrace.{type(self).__name__}: {self.trace!r}>"
        rows = self.rows
        more = [f"and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
        return "\n".join([*self._lines(rows[:SHOWN]), *more])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    def _check_running(self, made_by: str) -> None:
        if not self._thread.ident:
            how = f"write: with lbtrace.{made_by}(...), or wait()"
            raise UsageError("the table is empty", how)

    def _lines(self, rows: list[Any]) -> list[str]:
        (_, table, _), *_ = aggregated(self.trace.plan, Aggregates(0))
        return [*lines(table, rows)]

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
