"""Records which files an answer depends on, so that it can be kept while they stay as they are.

Everything that opens, lists or looks for a file to make a plan says so here, before it does
(`note`). What is not there is recorded as well: its appearance may change the answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TypeAlias, TypeVar

State: TypeAlias = tuple[str, tuple[int, ...]]
"""What is at a path: without symbolic links, its path, and its device, inode, size, time of the
last change of the content and of the inode in ns; or nothing and the number of the error."""

FRESH = 50_000_000
"""Nanoseconds. Kernels keep times of files by the tick, at most 10 ms: what was changed just before
it was looked at may change again without having another time."""

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Lookups:
    """The paths that were looked at, each with the `State` it had before. It is not ``certain`` if
    the answer depends on more than that, or a file may have changed unseen."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.certain = True

    def add(self, path: str) -> None:
        """Record the state of ``path``, unless it is known."""
        if path in self.states:
            return
        if path.startswith("/proc/"):  # leads elsewhere at any time
            self.certain = False
            return
        state = self.states[path] = state_of(path)
        if len(state[1]) > 1 and time.time_ns() - state[1][-1] < FRESH:
            self.certain = False

    def join(self, other: Lookups) -> None:
        """Record what another has recorded."""
        for path, state in other.states.items():
            if self.states.setdefault(path, state) != state:
                self.certain = False
        self.certain &= other.certain


_current: ContextVar[Lookups | None] = ContextVar("lookups", default=None)


def note(path: str) -> None:
    """Record that an answer depends on what is at ``path``; to be called before looking."""
    lookups = _current.get()
    if lookups is not None:
        lookups.add(path)


def mark_uncertain() -> None:
    """Record that an answer depends on something that is no file."""
    lookups = _current.get()
    if lookups is not None:
        lookups.certain = False


@contextmanager
def recording() -> Iterator[Lookups]:
    """Within, what is looked at is recorded."""
    lookups, outer = Lookups(), _current.get()
    token = _current.set(lookups)
    try:
        yield lookups
    finally:
        _current.reset(token)
        if outer is not None:
            outer.join(lookups)


def remembering(most: int) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Return a decorator that keeps up to ``most`` answers of a function, with what they
    depend on; those that are not certain are asked for again."""

    def decorate(ask: Callable[..., Answer]) -> Callable[..., Answer]:
        kept: dict[tuple[object, ...], tuple[Answer, Lookups]] = {}

        @wraps(ask)
        def answer(*question: object) -> Answer:
            if (known := kept.get(question)) is not None:
                found, lookups = known
                if (outer := _current.get()) is not None:
                    outer.join(lookups)
                return found
            with recording() as lookups:
                found = ask(*question)
            if lookups.certain:
                if len(kept) >= most:
                    kept.pop(next(iter(kept)), None)  # another thread may have been first
                kept[question] = found, lookups
            return found

        return answer

    return decorate


def state_of(path: str) -> State:
    """Return what is at ``path`` now."""
    try:
        status = os.stat(path)
    except OSError as error:
        return "", (error.errno or 0,)
    except ValueError:  # a NUL byte in the name
        return "", (0,)
    return os.path.realpath(path), of_status(status)


def of_status(status: os.stat_result) -> tuple[int, ...]:
    """Return what tells one content of a file from every other. The time of the last change to the
    inode comes last; its owner cannot set it (utimensat(2))."""
    return (
        *(status.st_dev, status.st_ino, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )
