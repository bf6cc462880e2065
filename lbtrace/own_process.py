"""Traces the process that asks for it, as a notebook wants it: another process does the work.

with lbtrace.trace_this_process(functions="malloc", binary="libc.so.6") as trace:
    work()
for call in trace.calls():
    print(call)
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from lbtrace.api import trace
from lbtrace.calls.iterator import Calls
from lbtrace.capture import Capture, read_capture
from lbtrace.errors import LbtraceError, UsageError
from lbtrace.model import Losses

OPTIONS = {
    "functions": "func",
    "lines": "line",
    "places": "at",
    "providers": "provider",
    "syscalls": "syscall",
    "tracepoints": "tracepoint",
}
"""The options of ``lbtrace attach`` that `lbtrace.trace` calls otherwise."""

READY = "Ctrl-C ends"
"""What the command says when its probes are attached."""

PAUSE = 0.005
"""Seconds between two looks at what it says."""

TIMES = frozenset({"slow", "off_cpu"})
"""Those that are nanoseconds, which the command wants to be told."""

APART = frozenset({"pid", "command", "options"})
"""What `lbtrace.trace` takes and this does not."""

LINES = 200
"""Of a tree that a notebook shows: it slows down with many more."""


def trace_this_process(**choices: Any) -> OwnTrace:
    """Return a context manager that traces this process, by ``choices``: those of `lbtrace.trace`,
    but ``pid``, ``command`` and ``options``.

    The calls of all threads between entry and exit are there afterwards. Raises `TypeError` for a
    choice that there is not. Entering raises `UsageError` where the choices are wrong, and
    `LbtraceError` where the trace cannot begin.
    """
    known = signature(trace).parameters.keys() - APART
    words: list[str] = []
    for name, value in choices.items():
        if name not in known:
            what = f"trace_this_process() got an unexpected keyword argument {name!r}"
            near = get_close_matches(name, known, 1)
            raise TypeError(what + "".join(f". Did you mean {each!r}?" for each in near))
        option = "--" + OPTIONS.get(name, name).replace("_", "-")
        values = value if isinstance(value, list | tuple) else [value]
        for each in values:
            if isinstance(each, bool):
                words += [option] * each
            elif each is not None:
                words.append(f"{option}={each}{'ns' * (name in TIMES)}")
    return OwnTrace(words)


class OwnTrace:
    """A trace of this process, used as a context manager. `calls` and `losses` are for after it;
    ``str`` gives the tree of calls."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._directory = TemporaryDirectory(prefix="lbtrace-")
        self._path = Path(self._directory.name, "run.lbt")
        self._said = Path(self._directory.name, "said")
        self._tracer: subprocess.Popen[bytes] | None = None
        self._capture: Capture | None = None

    def __enter__(self) -> OwnTrace:
        if self._tracer:
            raise UsageError("this trace has been entered already", "make another one")
        words = ["attach", *self._words, f"-p{os.getpid()}", f"-o{self._path}"]
        with self._said.open("wb") as said:
            self._tracer = subprocess.Popen(
                _command(words), env=_environment(), stderr=said, start_new_session=True
            )
        try:
            while READY not in self._said.read_text():
                if self._tracer.poll() is not None:
                    self._fail()
                time.sleep(PAUSE)
        except BaseException:
            self._tracer.kill()
            self._tracer.wait()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._tracer
        self._tracer.send_signal(signal.SIGINT)
        if self._tracer.wait():
            self._fail()
        self._capture = read_capture(self._path)

    def calls(self) -> Calls:
        """Return the calls, as `Capture.calls` does. Raises `UsageError` before the end."""
        return self._read().calls()

    @property
    def losses(self) -> Losses:
        """What was lost, by cause."""
        capture = self._read()
        for _ in capture.batches():
            pass  # what was lost stands at the end
        return capture.losses

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that a person should read, a line each."""
        return (*self._read().notes, *self._read().remarks)

    def __repr__(self) -> str:
        return (
            f"<lbtrace.OwnTrace: {'' if self._capture else 'not over, '}{shlex.join(self._words)}>"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the tree, as IPython and notebooks ask for it."""
        if self._capture is None:
            printer.text(repr(self))
            return
        lines = str(self).splitlines() or ["no calls"]
        left = len(lines) - LINES
        more = [f"… {left:,} more lines: print(_) shows all, _.calls() has the calls"]
        printer.text("\n".join(lines[:LINES] + more * (left > 0)))

    def __str__(self) -> str:
        words = ["export", str(self._path), "-q"]
        done = subprocess.run(
            _command(words), env=_environment(), stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode(errors="replace")

    def _read(self) -> Capture:
        if self._capture is None:
            raise UsageError("the trace is not over", "do this after the with statement")
        return self._capture

    def _fail(self) -> NoReturn:
        """Raise what the command says in its last lines."""
        assert self._tracer
        wrong, hint = ["", "", *self._said.read_text().splitlines()][-2:]
        kind = UsageError if self._tracer.returncode == UsageError.status else LbtraceError
        raise kind(wrong.removeprefix("lbtrace: "), hint.strip())


def _command(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "lbtrace", *words]


def _environment() -> dict[str, str]:
    """This environment, in which Python finds lbtrace where it is."""
    here = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
