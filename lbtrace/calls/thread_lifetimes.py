"""Tracks when threads and processes end: numbers are reused, programs executed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lbtrace.model import Thread

Ended: TypeAlias = Literal["", "thread", "process"]
"""What has ended, with its calls, before a thread is seen."""


class ThreadLifetimes:
    """What is known of threads, by their numbers, which the system reuses."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._renewed_threads = 0
        self._renewed_processes = 0
        self._known: dict[int, Thread] = {}
        self._programs: dict[int, int] = {}

    @property
    def threads(self) -> int:
        """Threads that were seen."""
        return len(self._seen) + self._renewed_threads

    @property
    def processes(self) -> int:
        """Processes whose threads were seen."""
        return len({pid for pid, _ in self._seen}) + self._renewed_processes

    def see(self, pid: int, tid: int) -> None:
        """Count the thread of those numbers."""
        self._seen.add((pid, tid))

    def name(self, tid: int) -> str:
        """Return the name of the thread that had a number last, if that is known."""
        known = self._known.get(tid)
        return known.name if known else ""

    def has_seen(self, pid: int, tid: int) -> bool:
        """Return whether the thread of those numbers has been counted."""
        return (pid, tid) in self._seen

    def expect(self, thread: Thread) -> bool:
        """Record the first ``thread`` of a process that is forked, which is counted when it is
        observed; return whether another process had its number before, which has ended."""
        former = thread.pid in self._programs or thread.tid in self._known
        if former:
            ended = {each for each in self._seen if each[0] == thread.pid}
            self._seen -= ended
            self._renewed_threads += len(ended)
            self._renewed_processes += bool(ended)
        self._known[thread.tid] = thread
        self._programs[thread.pid] = thread.programs
        return former

    def executes(self, pid: int, programs: int) -> bool:
        """Record how many programs a process has executed; return whether that shows that it has
        executed one, which ended all calls."""
        former, self._programs[pid] = self._programs.get(pid, programs), programs
        return former != programs

    def observe(self, thread: Thread) -> Ended:
        """Record ``thread``, and return what has ended before it, with its calls."""
        self.see(thread.pid, thread.tid)
        former = self._known.get(thread.tid)
        self._known[thread.tid] = thread
        programs = self._programs.get(thread.pid)
        self._programs[thread.pid] = thread.programs
        reborn = former is not None and thread.life != former.life
        if reborn and former and former.pid == thread.pid:
            leads = thread.pid == thread.tid
            self._renewed_threads += 1
            self._renewed_processes += leads
            return "process" if leads else "thread"
        # A process executes a program: threads but the one that does so are gone.
        if programs is not None and programs != thread.programs:
            return "process"
        return "thread" if reborn else ""
