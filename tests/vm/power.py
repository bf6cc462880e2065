"""The main switch of all virtual machines: an interrupted run leaves none running."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Lock


class SwitchedOff(Exception):
    """The main switch is off: nothing is known of how the machine would have ended."""


class Power:
    """Runs machines, from any thread, until it is switched off."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._on = True
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, command: Sequence[str], log: Path, limit: float) -> bool:
        """Run a machine's process, which writes to ``log``, for at most ``limit`` seconds.

        False where it had to be switched off by then. Raises `SwitchedOff`.
        """
        with log.open("wb") as output:
            process = self._start(command, output.fileno())
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                return False
            finally:
                process.kill()
                process.wait()
                self._running.discard(process)
        if not self._on:
            raise SwitchedOff
        return True

    def off(self) -> None:
        """Switch off what runs, and let nothing begin. Safe in a signal handler."""
        self._on = False
        for process in tuple(self._running):
            process.kill()

    def _start(self, command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if not self._on:
                raise SwitchedOff
            # A session of its own: Ctrl-C of a terminal is for us to act on.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._running.add(process)
        if not self._on:  # since then
            process.kill()
        return process
