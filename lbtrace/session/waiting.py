"""Waits for what a trace is about to get."""

from __future__ import annotations

import select
import time

POLL_MS = 20
"""How long an event may wait in a ring that does not fill."""

TIME_IS_UP = -2
"""What `Waiter.wait` returns with the descriptors when a time has come."""


class Waiter:
    """Waits until descriptors are readable, for `POLL_MS` at most."""

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def close(self) -> None:
        """Wait no more."""
        self._epoll.close()

    def watch(self, descriptor: int, *, edge: bool = False) -> None:
        """Wait for a descriptor, too; with ``edge`` until it is written to once more."""
        self._epoll.register(descriptor, select.EPOLLIN | (select.EPOLLET if edge else 0))

    def forget(self, descriptor: int) -> None:
        """Wait for it no more."""
        self._epoll.unregister(descriptor)

    def wait(self, end: float | None, *, idle: bool) -> set[int]:
        """Return the descriptors that are readable: now, or, if ``idle``, in a moment; `TIME_IS_UP`
        alone where it is later than ``end``, by `time.monotonic`."""
        timeout = POLL_MS / 1000 if idle else 0.0
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                return {TIME_IS_UP}
            timeout = min(timeout, left)
        return {descriptor for descriptor, _ in self._epoll.poll(timeout)}
