"""In which order the dynamic loader of a running process searches the files that it has loaded.

The loader keeps them in a list for debuggers, in that order: the program, what is preloaded, what
these need, level by level; what ``dlopen`` has loaded comes last. The dynamic section of the
program leads to it (``struct r_debug`` and ``struct link_map`` of ``link.h``; musl has them, too).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from struct import error as StructError

from lbtrace.elf.image import DYN, PHDR, PT_DYNAMIC
from lbtrace.system.procfs import directory_of, read_bytes

AT_PHDR, AT_PHNUM = 3, 5
"""Of ``elf.h``, as `PT_PHDR` and `DT_DEBUG` are."""
PT_PHDR, DT_DEBUG = 6, 21

AUXILIARY = Layout("<QQ")
DEBUG = Layout("<i4xQ")
"""A ``struct r_debug``: its version, and the first of the list."""
LINK = Layout("<QQQQ")
"""A ``struct link_map``: its bias, its name, where its dynamic section is, and the next."""

FILES = 2000
"""Files of one process, at most."""


def in_search_order(pid: int, paths: Sequence[str]) -> list[str]:
    """Return the ``paths`` of files that a process has mapped, or links of its ``map_files``, in
    the order in which its loader searches them; those last of which it knows nothing."""
    try:
        rows = _file_rows(pid)
        sections = [*_dynamic_sections(pid)]
    except (OSError, OverflowError, StructError):  # it has ended, or nobody may know
        return [*paths]
    firsts = [first for first, _, _ in rows]
    order: dict[str, int] = {}
    for section in sections:
        at = bisect_right(firsts, section) - 1
        if at >= 0 and section < rows[at][1]:
            order.setdefault(rows[at][2], len(order))
    spans = {f"{first:x}-{last:x}": path for first, last, path in rows}

    def place(path: str) -> int:
        return order.get(spans.get(os.path.basename(path), path), len(order))

    return sorted(paths, key=place)


def _file_rows(pid: int) -> list[tuple[int, int, str]]:
    """The first address of each mapping of a file, the one behind it, and the path."""
    rows = []
    for line in os.fsdecode(read_bytes(f"{directory_of(pid)}/maps")).split("\n"):
        parts = line.split(maxsplit=5)  # address perms offset device inode path
        if len(parts) > 5 and parts[5].startswith("/"):
            first, last = (int(each, 16) for each in parts[0].split("-"))
            rows.append((first, last, parts[5].replace("\\012", "\n").removesuffix(" (deleted)")))
    return rows


def _dynamic_sections(pid: int) -> Iterator[int]:
    """Where the dynamic sections of the loaded files are. Raises `OSError`."""
    words = dict(AUXILIARY.iter_unpack(read_bytes(f"{directory_of(pid)}/auxv")))
    memory = os.open(f"{directory_of(pid)}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        table = os.pread(memory, PHDR.size * words.get(AT_PHNUM, 0), words.get(AT_PHDR, 0))
        segments = [*PHDR.iter_unpack(table)]
        at = {kind: address for kind, _, _, address, *_ in segments}
        size = {kind: length for kind, *_, length, _ in segments}
        if PT_DYNAMIC not in at:
            return
        bias = words[AT_PHDR] - at.get(PT_PHDR, words[AT_PHDR])
        section = os.pread(memory, size[PT_DYNAMIC], bias + at[PT_DYNAMIC])
        debug = dict(DYN.iter_unpack(section)).get(DT_DEBUG, 0)
        _, link = DEBUG.unpack(os.pread(memory, DEBUG.size, debug)) if debug else (0, 0)
        for _ in range(FILES):
            if not link:
                return
            _, _, dynamic, link = LINK.unpack(os.pread(memory, LINK.size, link))
            yield dynamic
    finally:
        os.close(memory)
