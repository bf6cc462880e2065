"""Standard output and standard error, and what may be shown on them.

A failed write raises an `OutputError` that names the stream. A message that standard error does not
take is dropped.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from lbtrace.errors import OutputError
from lbtrace.text import clean

STDOUT = "standard output"
"""What messages call it."""


STALL = 0.3
"""Seconds in which a reader takes nothing, after which it is not waited for any longer, where the
user has asked for the end."""

ATOMIC = 4096
"""PIPE_BUF: where there is any room, there is room for this."""


class Stalled(Exception):
    """The reader of an output takes nothing, and the user does not wait for it."""


class Output(io.FileIO):
    """A file whose errors name it.

    Where the reader of a pipe, a socket or a terminal takes nothing for `STALL` seconds, and
    ``gives_up`` says that nobody waits for it, writing raises `Stalled`, and whatever is written
    afterwards is dropped.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        *,
        closefd: bool,
        gives_up: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self.written = 0
        """Bytes that were."""
        self._called = name
        self._gives_up = gives_up
        self._room: select.poll | None = None
        self._stalled = False
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
            self._room = select.poll()
            self._room.register(descriptor, select.POLLOUT)

    def write(self, data: Any) -> int:
        """Raises `OutputError`; `BrokenPipeError` passes through."""
        if self._stalled:
            return len(data)
        with naming(self._called):
            if self._room is not None:
                self._wait_for_room(self._room)
                data = memoryview(data).cast("B")[:ATOMIC]
            done = super().write(data)
            self.written += done or 0  # None where the reader of a pipe has no room
            return done

    def _wait_for_room(self, room: select.poll) -> None:
        waited = 0.0
        while not room.poll(STALL / 3 * 1000):
            waited += STALL / 3
            if waited >= STALL and self._gives_up():
                self._stalled = True
                raise Stalled


class _Forgiving(io.FileIO):
    """Standard error: a write that fails there cannot be reported."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of the system become `OutputError`, with the name of the output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        place = "send it elsewhere" if name == STDOUT else "choose another place with -o"
        raise OutputError(
            f"{name} cannot be written: {error.strerror or error}",
            f"make room, or {place}; what was written so far stays",
        ) from error


def prepare() -> None:
    """Make the standard streams of this process ready for any text and any failure.

    Those that are closed (``>&-``) get descriptors that refuse to be used, so that no
    file opened later takes their place. A command that is started does not inherit them.
    """
    for descriptor, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags | os.O_CLOEXEC)  # the lowest free one: this
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    raw = Output(1, STDOUT, closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=raw.isatty()
    )
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    forgiving = io.BufferedWriter(_Forgiving(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(forgiving, encoding, "backslashreplace", line_buffering=True)


def discard() -> None:
    """Drop what standard output has not taken, so that nothing is written at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report(lines: Iterable[str]) -> None:
    """Show lines on standard error, fit for a terminal."""
    for line in lines:
        print(clean(line), file=sys.stderr)


def say(lines: Iterable[str]) -> None:
    """Show warnings of lbtrace; those that begin with a space belong to the one before."""
    report(line if line.startswith(" ") else f"lbtrace: {line}" for line in lines)


def obeys(stream: IO[Any]) -> bool:
    """Return whether a stream is a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def owns_line(stream: IO[Any]) -> bool:
    """Return whether a stream is such a terminal, whose present line no shell writes meanwhile: it
    does while this is a job in the background."""
    if not obeys(stream):
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:  # a terminal without jobs
        return True


def has_colors(stream: IO[Any], when: str = "auto") -> bool:
    """Return whether to colour what is written to a stream: ``always``, ``never``, or ``auto``, as
    the environment asks for (https://no-color.org, https://bixense.com/clicolors), else on a
    terminal."""
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0") or obeys(stream)
