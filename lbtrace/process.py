"""The traced process: one that lbtrace starts, or one that runs already."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence

from lbtrace.errors import TargetError
from lbtrace.model import Target

THROWERS = re.compile(r"lib(stdc|c)\+\+")
"""Libraries of C++: where one is, somebody may throw exceptions."""

_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals Python ignores, and a command expects at their default."""


class Child:
    """A command, started but held before it executes anything.

    ``pid`` is known from the start, so probes can be in place before the
    command's first instruction. Raises `TargetError` where it cannot run.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self.status: int | None = None
        self._released = False
        gate, self._gate = os.pipe()
        self._report, report = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(gate, report)
        os.close(gate)
        os.close(report)

    def _become(self, gate: int, report: int) -> None:
        try:
            os.close(self._gate)
            if not os.read(gate, 1):  # lbtrace has gone
                os._exit(127)
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            os.execvp(self._command[0], self._command)
        except OSError as error:
            os.write(report, (error.errno or 0).to_bytes(4, "little"))
        finally:
            os._exit(127)

    def release(self) -> None:
        """Let the command run. Raises `TargetError` where it cannot be executed."""
        self._released = True
        os.write(self._gate, b"\n")
        os.close(self._gate)
        error = os.read(self._report, 4)  # closed by a successful exec
        os.close(self._report)
        if error:
            os.waitpid(self.pid, 0)
            self.status = 127
            raise TargetError(
                f"cannot run {self._command[0]}: {os.strerror(int.from_bytes(error, 'little'))}",
                "give the path of a program that you can execute",
            )

    def send(self, number: int) -> None:
        """Pass a signal on to the command."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its exit status as a shell tells it (128 + n for signal n), None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended(status)
        return self.status

    def wait(self) -> int:
        """Wait for its end, and tell its exit status."""
        if self.status is None:
            self._ended(os.waitpid(self.pid, 0)[1])
        assert self.status is not None
        return self.status

    def abandon(self) -> None:
        """Give up a command that was not released: it never runs."""
        if not self._released:
            self._released = True
            os.close(self._gate)
            os.close(self._report)
            # Whom the links were handed over to may still hold the gate.
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.status = code if code >= 0 else 128 - code


def open_pid(pid: int) -> int:
    """A pidfd, readable when the process has ended. Raises `TargetError` (Linux 5.3)."""
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


def executable(pid: int) -> str:
    """A path that opens the program a process runs.

    Its own name where that is the same file here, ``/proc/PID/exe`` where the
    file has been replaced or lies in a container. Raises `TargetError`.
    """
    link = f"/proc/{pid}/exe"
    try:
        name = os.readlink(link)
        return name if _same_file(name, link) else link
    except FileNotFoundError:
        raise _gone(pid) from None
    except PermissionError:
        raise TargetError(
            f"cannot see which program process {pid} runs",
            "run lbtrace as root or as the process's user, or name the file with --binary",
        ) from None


def mapped_file(pid: int, name: str) -> str:
    """A path that opens the file a process has mapped under ``name``.

    ``name`` is a path as the process sees it or a bare file name, such as
    ``libc.so.6``. Where the process maps no such file (yet), it is ``name``
    itself. Raises `TargetError`.
    """
    for path in _mapped(pid):
        if name in (path, os.path.basename(path)):
            return _as_seen_here(pid, path)
    return name


def beside(target: Target) -> tuple[str, ...] | None:
    """Paths of what runs in the processes of ``target``, traced or not: the program, and
    libraries that throw exceptions for others. None where that may be anything."""
    if target.command:
        return target.command[:1]
    if not target.pid:
        return None
    try:
        mapped = [path for path in _mapped(target.pid) if THROWERS.match(os.path.basename(path))]
        return (executable(target.pid), *(_as_seen_here(target.pid, path) for path in mapped))
    except TargetError:  # what needs it says so
        return ()


def _mapped(pid: int) -> list[str]:
    """The paths of the files a process has mapped, as it sees them. Raises `TargetError`."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            # address perms offset device inode path (proc_pid_maps(5))
            paths = (line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line)
            return list(dict.fromkeys(paths))
    except FileNotFoundError:
        raise _gone(pid) from None
    except OSError as error:
        raise TargetError(
            f"cannot see what process {pid} has mapped: {error.strerror}",
            "run lbtrace as root or as the process's user",
        ) from None


def _as_seen_here(pid: int, path: str) -> str:
    """A path that opens here what a process has under ``path``. Raises `TargetError`."""
    inside = f"/proc/{pid}/root{path}"
    try:
        os.stat(inside)
    except PermissionError:
        raise TargetError(
            f"cannot open {path} as process {pid} sees it",
            "run lbtrace as root or as the process's user",
        ) from None
    except OSError:  # it is gone: whoever opens it says so
        pass
    return path if _same_file(path, inside) else inside


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _gone(pid: int) -> TargetError:
    return TargetError(f"no process has the pid {pid}", "list processes with: ps -e")
