"""A trace that runs, as programs in Python use it: its calls, its tables, its end."""

from __future__ import annotations

from collections.abc import Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbtrace.calls.iterator import Calls, check_sends, describe_plan
from lbtrace.calls.matcher import CallMatcher
from lbtrace.errors import UsageError
from lbtrace.model import Addition, Aggregates, Batch, Call, Losses, Plan
from lbtrace.session.session import Session
from lbtrace.system.process import Running

if TYPE_CHECKING:
    from lbtrace.calls.slow import SlowCalls
    from lbtrace.session.worker import Worker
    from lbtrace.tables import Count


class Trace:
    """A trace, used as a context manager: it runs between entry and exit.

    With asyncio, ``async with`` and ``async for`` do the same and block nothing else. Of the
    methods only `wait`, `counts` and `table` may block; `stop` may be called from any thread.
    `lbtrace.trace` makes traces, each of which can be entered once.
    """

    def __init__(
        self, session: Session, max_depth: int | None = None, slow: SlowCalls | None = None
    ) -> None:
        self._session = session
        self._slow = slow
        self.max_depth = max_depth
        """Calls so deep are not shown, if it is not None."""
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

    def __exit__(self, *raised: Any) -> None:
        self.stop()
        with self._stepping:  # another thread may iterate
            if not self._left:
                self._losses = self.losses()
            self._left = True
            self._session.__exit__(*raised)

    async def __aenter__(self) -> Trace:
        from lbtrace.session.worker import Worker  # imported here because few use asyncio

        self._worker = Worker()
        return await self._worker.enter(self, self._session.interrupt)

    async def __aexit__(self, *raised: Any) -> None:
        self.stop()
        if self._worker is None:
            raise UsageError("the trace was not entered", "write: async with lbtrace.trace(...)")
        await self._worker.leave(lambda: self.__exit__(*raised))

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
            self._calls = LiveCalls(self, self.max_depth)
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

    def aggregated(self) -> Aggregates:
        """Return what the kernel has aggregated until now: `lbtrace.tables.table_of` makes rows of
        it. Raises `UsageError` outside of ``with``."""
        self._check_running()
        return self._session.aggregated()

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

    def batches(self) -> Iterator[Batch | Aggregates | Addition]:
        """What the session yields, as long as this is entered."""
        batches = self._session.batches()
        while True:
            with self._stepping:
                self._check_running()
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def shown_batches(self) -> Iterator[Batch | Aggregates | Addition]:
        """The same without calls that are not slow, if that was asked for."""
        return self._slow.filter(self.batches(), live=True) if self._slow else self.batches()

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
        super().__init__(trace.plan, trace.shown_batches(), max_depth, trace._note_returns)
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
