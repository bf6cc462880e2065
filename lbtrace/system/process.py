"""Running processes: what /proc says of them, and how to end them."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lbtrace.errors import TargetError, option
from lbtrace.system.procfs import first_thread_has_ended, read_text

GRACE = 3.0
"""Seconds between asking a process to end and killing it."""

LOOK = 0.02
"""Seconds from one look at which processes still run to the next."""

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the kernel's include/linux/sched.h: a flag of /proc/PID/stat."""


def open_pid(pid: int) -> int:
    """Return a pidfd, readable when the process has ended. Raises `TargetError` (Linux 5.3)."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise _gone(pid) from None
    except (OSError, OverflowError) as error:
        # EINVAL: the number is a thread's, or no pid at all.
        raise TargetError(
            f"cannot watch process {pid}: {getattr(error, 'strerror', None) or error}",
            "give the pid of a process, not of a thread",
        ) from None


class Running:
    """A process that runs, held by a pidfd: its number cannot come to mean another one."""

    def __init__(self, pid: int) -> None:
        """Raises `TargetError` where there is none (any more)."""
        self.pid = pid
        self._pidfd = open_pid(pid)
        with look_at(pid, "its name"):
            self.name = read_text(f"/proc/{pid}/comm").rstrip("\n")

    def __del__(self) -> None:
        if hasattr(self, "_pidfd"):
            os.close(self._pidfd)

    def ends_within(self, seconds: float) -> bool:
        """Return whether it has ended, or does so within some seconds."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def send(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


def end_all(running: Callable[[], Sequence[Running]], grace: float = GRACE) -> None:
    """Ask the processes that ``running`` returns to end (SIGTERM); kill those that run ``grace``
    seconds later. What they fork meanwhile ends with them."""
    asked: set[int] = set()
    begun, times_none = time.monotonic(), 0
    # A process may end while the child that it forks is not seen yet: none twice means none. What
    # nothing ends, as it waits for a disk, is not waited for.
    while times_none < 2 and time.monotonic() < begun + 2 * grace:
        processes = running()
        times_none = 0 if processes else times_none + 1
        for process in processes:
            if time.monotonic() > begun + grace:
                process.send(signal.SIGKILL)
            elif process.pid not in asked:
                asked.add(process.pid)
                process.send(signal.SIGTERM)
        if processes:
            processes[0].ends_within(LOOK)


def check_pid(pid: int) -> None:
    """Raises `TargetError` where ``pid`` is no process whose calls can be traced."""
    if pid == os.getpid():
        raise TargetError(
            f"process {pid} is lbtrace itself", "trace another one; lbtrace cannot watch itself"
        )
    with look_at(pid, "what it is"):
        status = read_text(f"/proc/{pid}/status")
        fields = dict(re.findall(r"^(\w+):\s*(.*)$", status, re.M))
        flags = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[6]
    name = fields["Name"]
    if int(fields["Tgid"]) != pid:
        raise TargetError(
            f"{pid} is a thread of process {fields['Tgid']} ({name})",
            f"give {option('pid', fields['Tgid'])}: all threads of a process are traced",
        )
    if int(flags) & _KERNEL_THREAD:
        raise TargetError(
            f"process {pid} ({name}) is a thread of the kernel: it runs no program",
            "give the pid of a program's process",
        )
    if fields["State"][0] in "ZX" and not first_thread_has_ended(pid):
        raise TargetError(
            f"process {pid} ({name}) has ended; its parent has not waited for it yet",
            "give the pid of a process that runs",
        )


@contextmanager
def look_at(pid: int, what: str) -> Iterator[None]:
    """Within, what /proc answers about a process becomes a `TargetError`; ``what`` completes
    "cannot see"."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError):
        raise _gone(pid) from None
    except OSError as error:
        hint = "run lbtrace as root or as the process's user, or give it CAP_SYS_PTRACE"
        if os.geteuid() == 0:
            hint = "give lbtrace CAP_SYS_PTRACE, or run it where the process was started"
        raise TargetError(f"process {pid}: cannot see {what}: {error.strerror}", hint) from None


def _gone(pid: int) -> TargetError:
    return TargetError(f"no process has the pid {pid}", "list processes with: ps -e")


def still_running(pids: Iterable[int]) -> Iterator[Running]:
    """Yield those of ``pids`` that have not ended."""
    for pid in pids:
        try:
            process = Running(pid)
        except TargetError:  # it has ended
            continue
        if not process.ends_within(0):
            yield process
