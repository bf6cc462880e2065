"""Where output goes, and how batches become it: shared by attach and export."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from msgspec.structs import replace

from lbtrace.calls import CallMatcher
from lbtrace.errors import OutputError
from lbtrace.model import Batch, Losses, Plan, Summary
from lbtrace.sinks.base import Sink

CAUSES = {
    "ring_full_entry": "the ring was full (entries)",
    "ring_full_return": "the ring was full (returns)",
    "nested_miss": "a probe hit inside a probe",
    "return_depth": "more than 64 calls open in a thread",
    "string_fault": "strings in unreadable memory",
    "blob_too_long": "values too long",
}
"""`Losses` in words."""


@contextmanager
def open_output(path: str | None, *, binary: bool, force: bool) -> Iterator[IO[Any]]:
    """The stream to write to; stdout when ``path`` is None or ``-``.

    Binary streams are unbuffered, text is UTF-8. Raises `OutputError` when a
    regular file exists and ``force`` is not given, when it cannot be created,
    and for what fails while it is written: a half-written file stays.
    `BrokenPipeError` passes through.
    """
    to_stdout = path is None or path == "-"
    name = "standard output" if path is None or path == "-" else path
    descriptor = 1 if path is None or path == "-" else _create(path, force)
    raw = _Output(descriptor, name, closefd=not to_stdout)
    stream: IO[Any] = cast(IO[Any], raw)
    if not binary:
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw, 1 << 17),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
        )
    try:
        yield stream
        with _told(name):
            stream.close()
    finally:
        with suppress(OSError, OutputError):  # the first error is the one to report
            stream.close()


class _Output(io.FileIO):
    """A file whose failures are told by its name."""

    def __init__(self, descriptor: int, name: str, *, closefd: bool) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self._called = name

    def write(self, data: Any) -> int:
        with _told(self._called):
            return super().write(data)


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"{name} cannot be written: {error.strerror or error}",
            "make room, or choose another place with -o; what was written so far stays",
        ) from error


def _create(path: str, force: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        # Devices and pipes exist before they are written to.
        replaceable = force or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        replaceable = False
    try:
        return os.open(path, flags if replaceable else flags | os.O_EXCL, 0o666)
    except FileExistsError:
        raise OutputError(
            f"{path} exists already", "choose another name, or replace it with --force"
        ) from None
    except OSError as error:
        raise OutputError(
            f"{path} cannot be created: {error.strerror}", "choose another place with -o"
        ) from error


def render(
    plan: Plan,
    batches: Iterable[Batch],
    sink: Sink,
    account: Callable[[], tuple[Losses, bool]],
    *,
    max_depth: int | None = None,
    after_batch: Callable[[CallMatcher], None] | None = None,
) -> Summary:
    """Drive batches through the matcher into a sink, to its end.

    ``account`` is asked, when the batches have ended, what was lost and
    whether the trace was interrupted. ``after_batch`` is called after each:
    for progress, or to flush the sink of a live trace.
    """
    matcher = CallMatcher(plan, sink, max_depth=max_depth)
    for batch in batches:
        matcher.feed(batch)
        if after_batch is not None:
            after_batch(matcher)
    matcher.finish()
    lost, interrupted = account()
    summary = Summary(
        calls=matcher.calls,
        losses=replace(lost, return_depth=max(lost.return_depth, matcher.return_depth)),
        processes=matcher.processes,
        threads=matcher.threads,
        interrupted=interrupted,
    )
    sink.end(summary)
    return summary


def describe(summary: Summary) -> list[str]:
    """The lines that tell the user what a trace amounts to."""
    counts = (
        _count(summary.calls, "call"),
        _count(summary.threads, "thread"),
        _count(summary.processes, "process", "processes"),
    )
    losses = summary.losses
    lost = f"{losses.events:,} events lost" if losses.events else "nothing lost"
    lines = [f"{counts[0]} in {counts[1]} of {counts[2]}, {lost}"]
    for cause, words in CAUSES.items():
        if number := getattr(losses, cause):
            lines.append(f"  {words}: {number:,}")
    if summary.interrupted:
        lines.append("  the capture was interrupted: what followed its last batch is missing")
    return lines


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
