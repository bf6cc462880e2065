"""Whose calls go on, and whose are over: numbers are reused, programs executed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lbtrace.model import Thread

Over: TypeAlias = Literal["", "thread", "process"]
"""Whose calls before are over."""


class Lives:
    """What is known of the threads behind their numbers.

    ``threads`` and ``processes`` count those that came under the number of
    another one of the same process, and of another process.
    """

    def __init__(self) -> None:
        self.threads = 0
        self.processes = 0
        self._known: dict[int, Thread] = {}
        self._programs: dict[int, int] = {}

    def note(self, thread: Thread) -> Over:
        """Whose calls are over now that ``thread`` is seen."""
        former = self._known.get(thread.tid)
        self._known[thread.tid] = thread
        programs = self._programs.get(thread.pid)
        self._programs[thread.pid] = thread.programs
        reborn = former is not None and thread.life != former.life
        if reborn and former and former.pid == thread.pid:
            leads = thread.pid == thread.tid
            self.threads += 1
            self.processes += leads
            return "process" if leads else "thread"
        # A process executes a program: threads but the one that does so are gone.
        if programs is not None and programs != thread.programs:
            return "process"
        return "thread" if reborn else ""
