"""A file that stays open from the planning of its probes to the end of the trace.

A path may lead to another file at any time: to what ``make`` or an upgrade has
put there since, or to what lies there in another mount namespace. An open file
remains the same one, and ``/proc/self/fd/N`` leads to it wherever the kernel
wants a path (proc_pid_fd(5)).
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from typing import Literal, TypeAlias

from lbtrace.errors import BinaryError, option
from lbtrace.system.lookups import note
from lbtrace.system.procfs import read_lines

Change: TypeAlias = Literal["", "overwritten", "replaced", "removed", "copied"]
"""What has happened to a file since it was opened: other content, another file at its
path, none there; an overlay may have copied it, so that its users have another one than those
before. Empty if nothing."""


class File:
    """A regular file, opened for reading without waiting, and closed with this object."""

    def __init__(self, path: str, shown: str = "") -> None:
        """Open ``path``. Messages and captures call it ``shown``, if that is given: the file
        need not lie there.

        Raises `BinaryError` where it cannot be opened, is no regular file or is empty.
        """
        note(path)
        self.path = shown or path
        # What leads through a process leads nowhere when that has ended.
        self._expected = not shown and not path.startswith("/proc/")
        try:
            # Without waiting: a named pipe is none of our business.
            self.descriptor = os.open(
                path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
        except OSError as error:
            hint = "check the path and its permissions"
            if "," in path and os.path.exists(first := path.partition(",")[0].strip()):
                hint = f"give each file by itself: {option('binary', first)}"
            raise BinaryError(f"{self.path}: {error.strerror}", hint) from None
        self._status = self._known = os.fstat(self.descriptor)
        if stat.S_ISDIR(self._status.st_mode):
            raise BinaryError(f"{self.path}: is a directory", "name a file inside it")
        if not stat.S_ISREG(self._status.st_mode):
            raise BinaryError(f"{self.path}: not a regular file", "name a program or library")
        if self._status.st_size == 0:
            raise BinaryError(f"{self.path}: the file is empty", "name a program or library")

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    @property
    def opened(self) -> str:
        """A path that leads to this very file, in this process."""
        return f"/proc/self/fd/{self.descriptor}"

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self._status.st_dev, self._status.st_ino

    @property
    def written(self) -> tuple[int, int]:
        """Size, and time of the last change of the content in ns, when it was opened."""
        return self._status.st_size, self._status.st_mtime_ns

    def accept(self, status: os.stat_result) -> None:
        """Take the times of ``status`` for those of the same content, which has been compared."""
        self._known = status

    def change(self) -> Change:
        """Return what has happened to it since it was opened.

        A program that writes through a mapping and sets the times back is not noticed.
        """
        now = os.fstat(self.descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._known.st_size, self._known.st_mtime_ns):
            return "overwritten"
        touched = now.st_ctime_ns != self._status.st_ctime_ns
        copied: Change = "copied" if touched and self._is_in_overlay else ""
        if not self._expected:
            return copied
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return "removed"
        except OSError:  # unknown, as on a share that is gone
            return copied
        return copied if (there.st_dev, there.st_ino) == self.identity else "replaced"

    @cached_property
    def _is_in_overlay(self) -> bool:
        """Whether it is in an overlay filesystem. That copies a file from its lower layer when the
        mode or owner is changed, and shows the same device, inode, size and times as before
        (Documentation/filesystems/overlayfs.rst, "Non-standard behavior")."""
        try:
            facts = read_lines(f"/proc/self/fdinfo/{self.descriptor}")
            number = next(line.split()[1] for line in facts if line.startswith("mnt_id:"))
            # number parent device root point … - type source options (proc_pid_mountinfo(5))
            mounts = [line.split() for line in read_lines("/proc/self/mountinfo")]
            mount = next(words for words in mounts if words[0] == number)
            return mount[mount.index("-") + 1] == "overlay"
        except (OSError, StopIteration, ValueError, IndexError):
            return False
