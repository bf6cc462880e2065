"""A command that lbtrace starts: found, held until its probes are attached, waited for."""

from __future__ import annotations

import errno
import gc
import os
import re
import shlex
import signal
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from lbtrace.bpf import privileges
from lbtrace.errors import CommandError, TargetError, option
from lbtrace.model import Target
from lbtrace.system.lookups import note
from lbtrace.system.procfs import read_bytes
from lbtrace.system.signals import held_back
from lbtrace.system.user import User, become, environment, find_user

SHELL = "/bin/sh"
"""What runs a script that names no interpreter (execvp(3))."""

_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals Python ignores, and a command expects at their default."""

_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python puts there."""


_OF_A_SHELL = re.compile(r"[|&;<>()$`]")
"""What only a shell understands."""

_VARIABLE = re.compile(r"[^\W\d]\w*=", re.ASCII)
"""How a word begins that sets a variable for the command that follows."""

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)

PATH_MAX = 4096
"""Bytes of a path with its last zero byte (``include/uapi/linux/limits.h``): execvp(3) passes over
longer ones."""


def find_command(name: str, *arguments: str) -> str:
    """Return the path of what execvp(3) would execute. Raises `CommandError` where there is
    nothing, which says what may have been meant with these ``arguments``."""
    reason = errno.ENOENT
    for path in _paths(name):
        note(path)
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            if error.errno not in _NOTHING_THERE:
                reason = error.errno or reason
            continue
        except ValueError:  # a NUL byte
            continue
        if not stat.S_ISDIR(mode) and os.access(path, os.X_OK):
            return path
        reason = errno.EACCES
    raise _cannot_run(name, reason, arguments)


class Command:
    """The command of a target, started but held before it executes anything.

    ``pid`` is known from the start, so probes can be in place before the
    command's first instruction. It runs as the target's user, if that has one, and ignores the
    signals that lbtrace does, and those of ``ignored``. With ``aside`` its standard output is
    its standard error. `release` raises `CommandError` where it cannot run. Everything goes
    through a pidfd (Linux 5.4), so no other process of that number is ever meant. ``killed_by`` is
    the signal that ended it, if one did.
    """

    def __init__(
        self, target: Target, ignored: Collection[int] = (), *, aside: bool = False
    ) -> None:
        self._words = target.command
        self._aside = aside
        self._ignored = ignored
        self._user = find_user(target.user) if target.user else None
        self.status: int | None = None
        self.killed_by = 0
        self.released = False
        self._held = False
        gate, self._gate = os.pipe()
        self._report, report = os.pipe()
        # In the child no handler of ours may run.
        with held_back() as mask:
            self.pid = os.fork()
            if self.pid == 0:
                self._become(gate, report, mask)
        os.close(gate)
        os.close(report)
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise

    def _become(self, gate: int, report: int, mask: Iterable[int]) -> NoReturn:
        """In the child: wait, and execute the command."""
        # What is collected here would close descriptors once more, which are others' by then.
        gc.disable()
        try:
            _close_private(gate, report)
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if number in _RESET or (callable(handler) and number not in self._ignored):
                    signal.signal(number, signal.SIG_DFL)
                elif number in self._ignored or handler == signal.SIG_IGN:
                    signal.signal(number, signal.SIG_IGN)  # C code may catch it: SIGBUS
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            privileges.drop_inherited()
            if self._aside:
                os.dup2(2, 1)
            variables = _inherited()
            if self._user is not None:
                variables = environment(self._user, variables)
                become(self._user)
            _launch(gate, report, self._words, variables)
        except OSError as error:
            os.write(report, b"\1")
            if os.read(gate, 1):
                os.write(report, (error.errno or 0).to_bytes(4, "little"))
        finally:
            os._exit(127)

    def wait_until_held(self) -> None:
        """Wait until nothing but system calls lies before the command's first instruction, so that
        no call of lbtrace's own is taken for one of the command."""
        if not self._held:
            self._held = True
            os.read(self._report, 1)

    def release(self) -> None:
        """Let the command run. Raises `CommandError` where it cannot be executed."""
        self.wait_until_held()
        self.released = True
        with suppress(BrokenPipeError):  # killed while it was held
            os.write(self._gate, b"\n")
        os.close(self._gate)
        error = os.read(self._report, 4)  # closed by a successful exec
        os.close(self._report)
        if error:
            self.wait()
            number = int.from_bytes(error, "little")
            raise _cannot_run(self._words[0], number, self._words[1:], self._user)

    def send(self, number: int) -> None:
        """Pass a signal on to the command, if it still runs. Safe in a signal handler."""
        with suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self._pidfd, number)

    def poll(self) -> int | None:
        """Return its exit status as in a shell (128 + n for signal n), None while it runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end, and return its exit status."""
        status = self._look(0)
        assert status is not None
        return status

    def abandon(self) -> None:
        """Give up a command that was not released: it never runs."""
        if not self.released:
            self.released = True
            os.close(self._gate)
            os.close(self._report)
            # A process that has taken over the links may still hold the gate.
            self.send(signal.SIGKILL)
            self.wait()

    def _look(self, options: int) -> int | None:
        if self.status is None:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | options)
            if ended is not None:
                self.killed_by = ended.si_status if ended.si_code != os.CLD_EXITED else 0
                self.status = 128 + ended.si_status if self.killed_by else ended.si_status
        return self.status

    def __del__(self) -> None:
        if hasattr(self, "_pidfd"):
            os.close(self._pidfd)


def _inherited() -> Mapping[str, str]:
    """The environment that lbtrace got. In the C locale Python adds one more variable to its own
    (PEP 538)."""
    if os.environ.get("LC_CTYPE") not in _COERCED:
        return os.environ
    given = read_bytes("/proc/self/environ").split(b"\0")
    if any(each.startswith(b"LC_CTYPE=") for each in given):
        return os.environ
    return {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}


def _close_private(*kept: int) -> None:
    """Close now the descriptors that an exec would close, except those ``kept``. While a command
    is held it would hold on to the probes and commands of other traces of this process."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing is closed
            if int(name) not in kept and not os.get_inheritable(int(name)):
                os.close(int(name))


def _paths(name: str) -> list[str]:
    """Where a command of that name may lie."""
    if "/" in name or not name:
        return [name]
    paths = (os.path.join(directory or ".", name) for directory in os.get_exec_path())
    return [path for path in paths if len(os.fsencode(path)) < PATH_MAX]


def _launch(gate: int, report: int, words: Sequence[str], variables: Mapping[str, str]) -> None:
    """Wait, and execute as execvp(3) does; Python's `os.execvp` does not run scripts without
    ``#!``."""
    from lbtrace.bpf._libbpf import ffi, lib  # imported here because only commands are executed

    kept: list[Any] = []  # what C reads must not be freed before

    def texts(*parts: str) -> Any:
        kept.extend(ffi.new("char[]", os.fsencode(part)) for part in parts)
        return ffi.new("char *[]", [*kept[len(kept) - len(parts) :], ffi.NULL])

    paths = _paths(words[0])
    # Traced system calls show what is tried: not the directories where there is nothing.
    paths = [path for path in paths if os.path.exists(path)] or paths
    lib.lbt_launch(
        *(gate, report, texts(*paths), texts(*words)),
        *(texts(SHELL, "", *words[1:]), texts(*map("=".join, variables.items()))),
    )


def _split_up(line: str, arguments: Sequence[str]) -> str:
    """What to do about a whole command line in the place of a program's name, or one that begins
    with variables as a shell's may; empty where it is neither."""
    words = line.split()
    if words and _VARIABLE.match(words[0]) and not _OF_A_SHELL.search(line):
        with suppress(ValueError):  # a quotation mark that is not closed
            words = shlex.split(line) if not arguments else [line]
        words += arguments
        if not all(map(_VARIABLE.match, words)):
            return f"variables are set by env: env {shlex.join(words)}"
        return ""
    if len(words) < 2:
        return ""
    if _OF_A_SHELL.search(line):
        return f"this is taken for one name; a shell runs such a line: sh -c {shlex.quote(line)}"
    with suppress(ValueError):  # a quotation mark that is not closed
        words = shlex.split(line)
    from shutil import which  # imported here because it is slow to, and few commands are not there

    if which(words[0]) is None:
        return ""
    return f"this is taken for one name; give each word by itself: {shlex.join(words)}"


def _cannot_run(
    name: str, number: int, arguments: Sequence[str], user: User | None = None
) -> TargetError:
    found = number == errno.ENOENT and "/" in name and os.path.exists(name)
    shown = name or "''"
    what = f"{shown} as {user.name}" if user else shown
    hint = "give the path of a program that you can execute"
    if user and number == errno.EPERM:  # execve(2) knows it only of mounts and traced processes
        return TargetError(
            f"cannot run {what}: only root may run it as another user",
            f"leave {option('user')} out, or run lbtrace as root",
        )
    if found:
        hint = "the file is there, but not the interpreter or loader that it names"
    elif number in _NOTHING_THERE and (meant := _split_up(name, arguments)):
        hint = meant
    elif user:
        hint = f"see that {user.name} can reach and execute it, or choose another {option('user')}"
    return CommandError(f"cannot run {what}: {os.strerror(number)}", hint, errno=number)
