"""Signals that wait until something is done."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[Collection[int]]:
    """Block all signals of this thread meanwhile, and give those that already were.

    They arrive afterwards, or at another thread.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield former
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
