"""The code that a plan was made for, by its checksum.

The times of a file do not show all that changes it: a program that stores through a shared mapping
into a page that is dirty already changes no time (``file_update_time`` runs when the page first
becomes writable).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence

from lbtrace.model import NO_BINARY, Plan
from lbtrace.system.file import File

LONGEST = 16
"""Bytes that hold an instruction of any machine."""

CHUNK = 1 << 20
"""Bytes that are read at once."""

NEAR = 4096
"""Bytes between functions that are read with them, rather than by another system call."""


def sum_code(plan: Plan, files: Sequence[File]) -> tuple[int, ...]:
    """Return a checksum of the functions and sites in each of ``files``, those of the plan's
    binaries. Raises `OSError`."""
    return tuple(
        _sum_file(file.descriptor, _merged(own))
        for file, own in zip(files, _ranges(plan), strict=True)
    )


def sum_code_of(plan: Plan, number: int, file: File) -> int:
    """Return that of one of the plan's binaries. Raises `OSError`."""
    return _sum_file(file.descriptor, _merged(_ranges(plan)[number]))


def _ranges(plan: Plan) -> list[list[tuple[int, int]]]:
    """Where the code is that is traced, for each of the plan's binaries."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in plan.binaries]
    for function in plan.functions:
        if function.binary == NO_BINARY:
            continue
        ranges[function.binary].append((function.offset, function.offset + function.size))
    for probe in plan.probes:
        if probe.event:
            continue
        ranges[probe.binary].append((probe.site.offset, probe.site.offset + LONGEST))
    return ranges


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = end = -NEAR - 1
    for first, last in sorted(ranges):
        if first > end + NEAR:
            if end >= 0:
                yield start, end
            start, end = first, last
        end = max(end, last)
    if end >= 0:
        yield start, end


def _sum_file(descriptor: int, ranges: Iterable[tuple[int, int]]) -> int:
    found = 0
    for start, end in ranges:
        for at in range(start, end, CHUNK):
            if not (read := os.pread(descriptor, min(CHUNK, end - at), at)):
                break  # the file ends before
            found = zlib.crc32(read, found)
    return found
