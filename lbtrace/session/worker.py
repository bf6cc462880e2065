"""A trace in asyncio: a separate thread does what blocks, and the event loop continues."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from lbtrace.errors import UsageError

T = TypeVar("T")


class Worker:
    """The thread of one trace. What it is given it does one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lbtrace")
        self._pending: asyncio.Future[Any] | None = None
        self._awaited = False

    async def enter(
        self, manager: AbstractContextManager[T], interrupt: Callable[[int], None]
    ) -> T:
        """Enter ``manager``. A task cancelled meanwhile calls ``interrupt``, so that this ends
        soon, and leaves it again."""
        entering = self._start(manager.__enter__)
        if await _outlasted(entering, lambda: interrupt(signal.SIGINT)):
            if entering.exception() is None:
                await _outlasted(self._start(manager.__exit__, None, None, None))
            self._thread.shutdown(wait=False)
            raise asyncio.CancelledError
        if entering.exception() is not None:
            self._thread.shutdown(wait=False)
        return entering.result()

    async def step(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns. A task cancelled meanwhile misses nothing: the next
        step gets what this one would have. Raises `UsageError` while another task waits for a
        step."""
        if self._awaited:
            raise UsageError(
                "two tasks read the calls of a trace at once", "let one read, and pass them on"
            )
        if self._pending is None:
            self._pending = self._start(function)
        self._awaited = True
        try:
            await asyncio.wait([self._pending])
        finally:
            self._awaited = False
        done, self._pending = self._pending, None
        result: T = done.result()
        return result

    async def leave(self, function: Callable[[], None]) -> None:
        """Call ``function``, which leaves the trace, after the present step; to its end, also
        where this is cancelled."""
        leaving = self._start(function)
        cancelled = await _outlasted(leaving)
        self._thread.shutdown(wait=False)
        if self._pending is not None and not self._pending.cancelled():
            self._pending.exception()  # nothing waits for it any more
        leaving.result()
        if cancelled:
            raise asyncio.CancelledError

    def _start(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


async def _outlasted(
    future: asyncio.Future[Any], on_cancel: Callable[[], None] = lambda: None
) -> bool:
    """Wait until ``future`` is done, whatever happens; whether this was cancelled meanwhile."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    return cancelled
