"""Which processes map files executable, as the kernel says while it happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check, check_pointer

MANY = 1000
"""Records at once after which there may have been more, for which there was no room: half of what
a ring of mappings.c holds. The kernel says so only beside a later record."""


FILE = Struct("=QII")
"""struct lbt_mapped_file: inode, device, length of the path that follows."""


class Mappings:
    """The mappings of code of all processes on the machine, from now on (``PERF_RECORD_MMAP2``,
    perf_event_open(2)). They come after the fact, and hold up nobody.

    Raises `KernelError`, where CAP_PERFMON is missing for example.
    """

    def __init__(self) -> None:
        watched = check_pointer(lib.lbt_mappings_new(), "watch which files are mapped")
        self._mappings = ffi.gc(watched, lib.lbt_mappings_free)
        self._lost = 0

    def fileno(self) -> int:
        """Readable as soon as some process has mapped code."""
        return int(lib.lbt_mappings_fd(self._mappings))

    def take(self) -> tuple[set[int], bool]:
        """Return the pids that have mapped code since the last call, and whether there may be
        others, for whose records the kernel had no room."""
        mappings = self._mappings
        check(lib.lbt_mappings_drain(mappings), "read which files are mapped")
        lost = self._lost != mappings.lost or mappings.count > MANY
        self._lost = mappings.lost
        return (set(mappings.pids[0 : mappings.count]) if mappings.count else set()), lost

    def files(self) -> Iterator[tuple[int, int, str]]:
        """Yield the files of what `take` has returned last, once each: device (``major << 20 |
        minor``) and inode as the kernel has them, and the path that the process has mapped."""
        if not self._mappings.file_size:
            return
        records = bytes(ffi.buffer(self._mappings.files, self._mappings.file_size))
        at, found = 0, set()
        while at < len(records):
            inode, device, length = FILE.unpack_from(records, at)
            at += FILE.size
            found.add((device, inode, os.fsdecode(records[at : at + length].rstrip(b"\0"))))
            at += length
        yield from found

    def close(self) -> None:
        """Watch no more."""
        ffi.release(self._mappings)
