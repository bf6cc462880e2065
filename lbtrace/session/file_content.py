"""What of a file must stay as it is while probes are in it.

`touch` changes a file's times, and so does who writes the same bytes again. The probes stand as
long as the code is the same in the file, from which the kernel has copied the instructions under
them, and in the pages of processes, into which it has written breakpoints.
"""

from __future__ import annotations

import mmap
import os
import time

from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.model import Plan
from lbtrace.session.planned_code import sum_code_of
from lbtrace.system.file import File

TICK = 100_000_000
"""Nanoseconds in which a file may be written twice without another time: a tick of the kernel has
at most ten milliseconds (``current_time``, fs/inode.c)."""


class _OwnPage:
    """A private copy of a file's last page.

    Whoever shortens the file takes such pages from all processes, those with breakpoints as well
    (``unmap_mapping_range`` with ``even_cows``, mm/truncate.c); they come again, as the file has
    them. Who writes into the file leaves them alone.
    """

    def __init__(self, file: File) -> None:
        """Raises `OSError`, `ValueError`."""
        size = os.fstat(file.descriptor).st_size
        start = (size - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        self._mark = bytes([os.pread(file.descriptor, 1, start)[0] ^ 0xFF])
        access = mmap.PROT_READ | mmap.PROT_WRITE
        self._page = mmap.mmap(
            file.descriptor, size - start, mmap.MAP_PRIVATE, access, offset=start
        )
        # By read(2) and write(2): the file may be shorter by now, and then an access would be a
        # SIGBUS, where the kernel says EFAULT.
        self._memory = os.memfd_create("lbtrace")
        os.pwrite(self._memory, self._mark, 0)
        os.preadv(self._memory, [memoryview(self._page)[:1]], 0)

    def __del__(self) -> None:
        if hasattr(self, "_memory"):
            os.close(self._memory)

    def is_left(self) -> bool:
        """Return whether it is still there."""
        try:
            os.pwrite(self._memory, memoryview(self._page)[:1], 0)
        except OSError:
            return False
        return os.pread(self._memory, 1, 0) == self._mark


class Content:
    """The code of one binary of a plan that is traced, and the build of its file."""

    def __init__(self, plan: Plan, number: int, file: File) -> None:
        """Raises `OSError`, `ValueError` where it cannot be watched, or has changed."""
        self._plan, self._number, self._file = plan, number, file
        self._sum = sum_code_of(plan, number, file)
        self._page = _OwnPage(file)
        if file.change() == "overwritten":
            raise ValueError

    def is_kept(self) -> bool:
        """Return whether all is as it was. Where the times have changed, and that was some time
        ago, they are those of the file from now on."""
        status = os.fstat(self._file.descriptor)
        if status.st_size != self._file.written[0] or not self._is_same():
            return False
        if not 0 <= time.time_ns() - status.st_mtime_ns < TICK:
            self._file.accept(status)
        return True

    def _is_same(self) -> bool:
        try:
            built = Image(self._file, any_machine=True).build_id
            return (
                built == self._plan.binaries[self._number].build_id
                and sum_code_of(self._plan, self._number, self._file) == self._sum
                and self._page.is_left()
            )
        except (OSError, BinaryError):
            return False
