"""The calls of a trace or a capture, one after the other, for programs."""

from __future__ import annotations

from _thread import allocate_lock  # threading takes longer to import
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.visitor import Visitor
from lbtrace.errors import UsageError
from lbtrace.model import SENDING, Addition, Aggregates, Arguments, Batch, Call, Plan, Thread
from lbtrace.validation import check_number

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Calls(Iterator[Call]):
    """An iterator of calls, each when it has ended, innermost calls first.

    Calls that are still open when there is nothing more come last, with ``end`` ``open``.
    ``aggregates`` is what the trace has aggregated until now, where its action is to aggregate.
    Iteration raises what reading the trace or capture raises (`LbtraceError`).
    """

    def __init__(
        self,
        plan: Plan,
        batches: Iterable[Batch | Aggregates | Addition],
        max_depth: int | None,
        on_end: Callable[[CallMatcher], None],
    ) -> None:
        if max_depth is not None:
            check_number("max_depth", max_depth, 0)
        self.aggregates = Aggregates(0)
        self._plan = plan
        self._ended = EndedCalls()
        self._matcher = CallMatcher(plan, self._ended, max_depth=max_depth)
        self._batches = batches
        self._on_end = on_end
        self._pieces = self._match()
        self._piece: Iterator[Call] = iter(())
        self._stepping = allocate_lock()

    def __repr__(self) -> str:
        return f"<lbtrace.Calls of {describe_plan(self._plan)}>"

    def __iter__(self) -> Iterator[Call]:
        return self._flatten()  # a generator's own next is faster than the method below

    def __next__(self) -> Call:
        while (call := next(self._piece, None)) is None:
            if not self._step():
                raise StopIteration
        return call

    def close(self) -> None:
        """End the iteration here. Raises `UsageError` where another thread waits for calls."""
        with self._alone():
            self._pieces.close()
        for _ in self._piece:
            pass  # whoever iterates has the same iterator

    def to_arrow(self) -> pyarrow.Table:
        """Return all calls that are left as an Arrow table: see `lbtrace.to_arrow`."""
        from lbtrace.calls.table import to_arrow

        return to_arrow(self)

    def to_pandas(self, *, unit: str = "") -> pandas.DataFrame:
        """Return all calls that are left as a data frame: see `lbtrace.to_pandas`."""
        from lbtrace.calls.table import to_pandas

        return to_pandas(self, unit=unit)

    def _flatten(self) -> Generator[Call]:
        while True:
            yield from self._piece
            if not self._step():
                return

    def _step(self) -> bool:
        """Take the calls of the next batch; false at the end. Raises `UsageError` where another
        thread waits for them."""
        with self._alone():
            piece = next(self._pieces, None)
            self._piece = iter(piece or ())
        return piece is not None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """What only one thread may do at a time."""
        if not self._stepping.acquire(blocking=False):
            raise UsageError(
                "another thread is iterating these calls",
                "iterate in one thread, which may hand calls on by a queue.Queue",
            )
        try:
            yield
        finally:
            self._stepping.release()

    def _match(self) -> Generator[list[Call]]:
        """The calls that have ended after each batch, and after the last one."""
        for batch in self._batches:
            if isinstance(batch, Aggregates):
                self.aggregates = batch
                continue
            if isinstance(batch, Addition):
                self._plan = self._plan.grown(batch)
                self._matcher.grow(self._plan)
                continue
            if batch.gap:
                self._matcher.finish()  # what was missed may hold the ends of all calls
            self._matcher.feed(batch)
            yield self._ended.take()
        self._matcher.finish()
        self._on_end(self._matcher)
        yield self._ended.take()


def check_sends(plan: Plan) -> None:
    """Raise `UsageError` where the kernel aggregates what happens, and sends no calls."""
    actions = plan.actions
    aggregating = [action for action in actions if action not in SENDING]
    if aggregating and "send" not in actions:
        raise UsageError(
            f"this trace sends no calls: its action is {' and '.join(aggregating)}",
            "use counts()" if "count" in aggregating else "use table()",
        )


def describe_plan(plan: Plan) -> str:
    """Return what is traced in a few words: ``2 functions of /bin/prog``."""
    count = len(plan.functions)
    functions = "1 function" if count == 1 else f"{count:,} functions"
    return f"{functions} of {', '.join(binary.path for binary in plan.traced)}"


class EndedCalls(Visitor):
    """A visitor that collects the calls that have ended."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._names: dict[int, str] = {}

    def take(self) -> list[Call]:
        """Return what has been collected since this was asked last."""
        calls, self._calls = self._calls, []
        return calls

    def thread(self, thread: Thread) -> None:
        self._names[thread.tid] = thread.name

    def exit(self, call: Call) -> None:
        self.point(call)
        caller = call.parent
        if caller and caller.inside is not None and caller.pid == call.pid:
            caller.inside = None if call.duration is None else caller.inside + call.duration

    def point(self, point: Call) -> None:
        point.args = Arguments(point.args)
        point.thread_name = self._names.get(point.tid, "")
        self._calls.append(point)
