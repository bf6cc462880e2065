"""A stage of a longer run: one command with a limit of time, and how it ended.

Needs nothing but Python, as the gate begins before anything is installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PATIENCE = 60
"""Seconds that a stage over its limit has to tidy up after SIGINT, before it is killed, unless
reported."""


@dataclass(frozen=True)
class Stage:
    """A command by a name, and the seconds that it may take."""

    name: str
    command: Sequence[str]
    limit: float


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: its exit status, negative for a signal, and the seconds it took."""

    name: str
    status: int
    seconds: float
    in_time: bool = True

    @property
    def passed(self) -> bool:
        """Whether it ended by itself, with status 0."""
        return self.in_time and self.status == 0

    @property
    def verdict(self) -> str:
        """How it ended, in words."""
        if not self.in_time:
            return "ended at its limit"
        return "passed" if self.passed else f"failed (status {self.status})"


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does, and Ctrl-C also where a shell's job
    in the background ignores it, as all below would."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def run(
    stage: Stage,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    patience: float | None = None,
) -> Outcome:
    """Run a stage to its end, or to its limit; what it prints goes into ``log`` if there is one.

    At its limit its process group is interrupted, and killed ``patience`` seconds later. What it
    has put into other groups is the caller's to kill (tests/harmless/offspring.py).
    """
    patience = PATIENCE if patience is None else patience
    start = time.monotonic()
    output: IO[bytes] | None = None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    sys.stdout.flush()
    try:
        # A group of its own, so that a limit reaches all that it has started.
        process = subprocess.Popen(
            list(stage.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
        )
        in_time = True
        try:
            status = process.wait(stage.limit)
        except subprocess.TimeoutExpired:
            in_time = False
            status = _end(process, patience)
        except BaseException:
            _end(process, patience)
            raise
    finally:
        if output is not None:
            output.close()
    return Outcome(stage.name, status, time.monotonic() - start, in_time)


def _end(process: subprocess.Popen[bytes], patience: float) -> int:
    """Interrupt a stage's processes, so that tests can restore what they changed; then kill."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def table(rows: Sequence[Outcome]) -> str:
    """A line for each stage: name, seconds, how it ended."""
    width = max((len(row.name) for row in rows), default=0)
    return "\n".join(f"{r.name:{width}}  {r.seconds:6.0f} s  {r.verdict}" for r in rows)
