"""Opens files that untrusted files name, such as the debug file of a program, or that are in
directories to which other users write.

Such a name may lead to a named pipe, on which opening waits, or to a device, on which it
has effects (open(2): O_NONBLOCK, O_NOCTTY). Only regular files with content are taken;
those of /proc claim to be empty.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable

from lbtrace.system.lookups import note

CAREFULLY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags with which opening never blocks, and no file becomes the controlling terminal."""


def open_regular(
    path: str, flags: int = os.O_RDONLY, *, directory: int | None = None
) -> tuple[int, os.stat_result]:
    """Return a descriptor of the regular file ``path``, and its status.

    ``directory`` is a descriptor of the directory that a relative path counts from.
    Raises `OSError` if there is no such file, or it is of another kind or empty.
    """
    if directory is None:
        note(path)
    try:
        descriptor = os.open(path, flags | CAREFULLY, dir_fd=directory)
    except ValueError:  # a NUL byte in the name
        raise OSError(errno.EINVAL, "no name of a file", path) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            raise OSError(errno.EINVAL, "not a regular file with content", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


class Mapped(mmap.mmap):
    """The content of a file, mapped read-only.

    Pages that are truncated later, or cannot be read from the disk, read as zeros; otherwise they
    would end the process (SIGBUS, mmap(2)).
    """

    _place = -1
    _forget: Callable[[int], None] = staticmethod(lambda place: None)

    def __new__(cls, descriptor: int) -> Mapped:
        """Map the file of ``descriptor``; ValueError if it is empty."""
        from lbtrace.files._faults import ffi, lib  # here: not every start maps a file

        data = super().__new__(cls, descriptor, 0, access=mmap.ACCESS_READ)
        with ffi.from_buffer(data) as start:
            data._place, data._forget = lib.lbt_guard(start, len(data)), lib.lbt_forget
        return data

    def __del__(self) -> None:
        self._forget(self._place)


def map_regular(path: str) -> mmap.mmap:
    """Return the content of the regular file ``path``. Raises `OSError` as `open_regular` does."""
    descriptor, _ = open_regular(path)
    try:
        return Mapped(descriptor)
    except ValueError:  # truncated since
        raise OSError(errno.EINVAL, "not a regular file with content", path) from None
    finally:
        os.close(descriptor)
