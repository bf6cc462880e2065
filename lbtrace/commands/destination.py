"""Where output goes: files that are made with care, as root writes them where others may.

Output holds arguments of calls, which other users must not read: files are created with mode 0600,
as perf does. A file that ``--force`` replaces is never written to: a fresh one takes its name, so
that hard links, running programs and files of others stay what they are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lbtrace.commands.streams import STDOUT
from lbtrace.errors import OutputError, UsageError

MODE = 0o600

LINKS = 40
"""Symbolic links that are followed one after the other, as the kernel does (MAXSYMLINKS)."""

_WRITE = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY

_MAKE = _WRITE | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""What comes after another program has emptied the file is at its beginning then, not after a
hole: the size shows it."""


class Destination:
    """The place that ``path`` names, standard output where it is None or ``-``.

    Making one checks all that can be checked, and creates nothing; `open` creates. Both
    raise `OutputError`. ``kept`` are paths of files that may not be replaced, whatever
    their name: `UsageError`.
    """

    def __init__(self, path: str | None, *, force: bool, kept: Iterable[str] = ()) -> None:
        self.is_stdout = path is None or path == "-"
        self.name = STDOUT if path is None or path == "-" else path
        self._path = ""
        self._descriptor = -1
        self._replaces = force
        self._made: os.stat_result | None = None
        if path is None or path == "-":
            self._descriptor = 1
            return
        with _explaining(path):
            self._find(path, force, kept)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self._descriptor >= 0 and os.isatty(self._descriptor)

    @property
    def shares_stdout(self) -> bool:
        """Whether it is where a command prints to."""
        try:
            return self._descriptor >= 0 and os.path.sameopenfile(self._descriptor, 1)
        except OSError:  # standard output is closed
            return False

    def open(self) -> int:
        """Return the descriptor to write to, which a regular file gets by this."""
        if self._descriptor >= 0:
            return self._descriptor
        with _explaining(self.name):
            if self._replaces:
                descriptor, fresh = _make_next_to(self._path)
                try:
                    os.rename(fresh, self._path)
                except OSError:
                    os.close(descriptor)
                    os.unlink(fresh)
                    raise
            else:
                descriptor = os.open(self._path, _MAKE, MODE)
            self._made = os.fstat(descriptor)
            return descriptor

    def check(self, descriptor: int, written: int) -> None:
        """Raise `OutputError` where the regular file that `open` returned no longer holds what was
        ``written``, so many bytes, and nothing else."""
        if self._made is None:
            return
        found = os.fstat(descriptor)
        if found.st_nlink == 0 and not self._is_in_place():
            happened = "removed or replaced"
        elif found.st_size != written:
            happened = "emptied or changed"
        else:
            return
        raise OutputError(
            f"{self.name} was {happened} while it was written",
            "choose a name with -o that nothing else removes or writes to",
        )

    def discard(self) -> None:
        """Take away the file that was made: nothing is worth keeping."""
        if self._is_in_place():
            os.unlink(self._path)

    def _is_in_place(self) -> bool:
        """Whether the file that was made has its name still."""
        try:
            return self._made is not None and os.path.samestat(self._made, os.lstat(self._path))
        except OSError:
            return False

    def _find(self, path: str, force: bool, kept: Iterable[str]) -> None:
        followed, number = _follow(path)
        if number >= 0:
            self._descriptor = os.dup(number)
            return
        self._path = followed
        try:
            found = os.lstat(followed)
        except FileNotFoundError:
            found = None
        if found is not None and not stat.S_ISREG(found.st_mode):
            self._descriptor = _open_special(followed, found)
            return
        if found is not None:
            _refuse_kept(path, found, kept)
            if not force:
                raise FileExistsError
        descriptor, fresh = _make_next_to(followed)  # whether it can be, to be known in time
        os.close(descriptor)
        os.unlink(fresh)


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    """Errors of the system become `OutputError`."""
    try:
        yield
    except FileExistsError:
        raise OutputError(
            f"{path} exists already", "choose another name, or replace it with --force"
        ) from None
    except OSError as error:
        raise OutputError(
            f"{path} cannot be created: {error.strerror}", "choose another place with -o"
        ) from error


def _follow(path: str) -> tuple[str, int]:
    """Where the symbolic links lead that ``path`` ends with; an own descriptor, or -1."""
    for _ in range(LINKS):
        folder, name = os.path.split(path)
        if os.path.realpath(folder) == f"/proc/{os.getpid()}/fd" and name.isdigit():
            return path, int(name)
        try:
            found = os.lstat(path)
        except OSError:
            return path, -1
        if not stat.S_ISLNK(found.st_mode):
            return path, -1
        _refuse_planted(path, found)
        path = os.path.join(folder, os.readlink(path))
    raise OutputError(f"{path} is a symbolic link to itself", "choose another place with -o")


def _refuse_planted(path: str, found: os.stat_result) -> None:
    """Refuse what others may have laid where everybody may write: links, FIFOs and devices.

    The rule of fs.protected_symlinks and fs.protected_fifos (proc_sys_fs(5)), whether
    or not the system has them on.
    """
    around = os.stat(os.path.dirname(path) or ".")
    shared = around.st_mode & stat.S_ISVTX and around.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if shared and found.st_uid not in (os.geteuid(), around.st_uid):
        raise OutputError(
            f"{path} was made by another user, where everybody may write",
            "choose another place with -o",
        )


def _refuse_kept(path: str, found: os.stat_result, kept: Iterable[str]) -> None:
    for other in kept:
        try:
            same = os.path.samestat(found, os.stat(other))
        except OSError:
            continue
        if same:
            raise UsageError(f"the output {path} is {other} itself", "choose another name with -o")


def _open_special(path: str, found: os.stat_result) -> int:
    """Open a device or FIFO without waiting for its reader."""
    if not stat.S_ISDIR(found.st_mode):
        _refuse_planted(path, found)
    if stat.S_ISBLK(found.st_mode):  # a disk, whose content is worth more than a trace
        raise OutputError(f"{path} is a block device", "choose a file with -o")
    try:
        descriptor = os.open(path, _WRITE | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if stat.S_ISFIFO(found.st_mode):
            raise OutputError(
                f"the FIFO {path} has no reader", f"start its reader first: cat {path} &"
            ) from error
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _make_next_to(path: str) -> tuple[int, str]:
    """A fresh file in the same folder: its descriptor, and its path."""
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name[:200]}.{os.urandom(4).hex()}")
    return os.open(fresh, _MAKE, MODE), fresh
