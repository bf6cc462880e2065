"""Code that is no longer in memory what it is in the file.

Programs change their own: hooks (a jump over a function's first bytes), XRay, switches of
tracers. The kernel knows only the file: a breakpoint there executes the instruction that
lies in the file, and puts that one's first byte back when it goes (``copy_insn`` and
``set_orig_insn`` in ``kernel/events/uprobes.c``). So no probe may be placed there.

Nor where a debugger has a breakpoint: the kernel takes each hit for one of its own, or the debugger
never gets past it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from struct import iter_unpack, unpack_from
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from lbtrace.model import Target
from lbtrace.system.file import File
from lbtrace.system.procfs import directory_of, read_bytes
from lbtrace.targets.exchanged_stacks import find_exchanging
from lbtrace.targets.reach import Reach

if TYPE_CHECKING:
    from lbtrace.elf.image import Image

PAGE = mmap.PAGESIZE

SWAPPED, OF_FILE, PRESENT = 1 << 62, 1 << 61, 1 << 63
"""Bits of an entry of ``/proc/PID/pagemap`` (Documentation/admin-guide/mm/pagemap.rst)."""

LONGEST = 15
"""Bytes of an instruction, at most: Intel SDM 2.3.11."""

TRAMPOLINES = b"[uprobes-trampoline]"
"""Where Linux 6.18 leads calls that it puts into the place of nops of 5 bytes."""


Found: TypeAlias = Iterator[tuple[tuple[int, int], int]]
"""Addresses of code, each after the identity of its file."""


class _Mapping(Struct, frozen=True):
    start: int
    end: int
    offset: int
    inode: int
    name: bytes


Comparison: TypeAlias = Callable[[bytes, bytes, int, str, list[_Mapping]], Iterator[int]]
"""What finds places in a page: what it is now, what it is in the file, its address, the machine,
and where the kernel's trampolines are."""


class _Traced:
    """A file whose code is compared. Few differ, so it is read late."""

    def __init__(self, file: File) -> None:
        self.file = file

    @cached_property
    def image(self) -> Image:
        from lbtrace.elf.image import Image

        return Image(self.file)


class Running(Struct, frozen=True):
    """What processes that run now show of the files that a trace is about."""

    patched: dict[tuple[int, int], tuple[int, ...]]
    """The addresses of code that differs from the file, in order, by the identity of the file."""
    exchanging: str = ""
    """A file that exchanges what is on stacks (`lbtrace.targets.exchanged_stacks`)."""


def find_patched(files: Iterable[File], target: Target, reach: Reach) -> Running:
    """Return what processes show that a trace reaches. What cannot be read counts as unchanged."""
    pids = () if reach.everyone else target.pids
    if not pids and not reach.everyone:  # a command, which has not begun
        return Running({})
    by_inode = {file.identity[1]: _Traced(file) for file in files}
    found: dict[tuple[int, int], set[int]] = {}
    exchanging = ""
    for process in map(str, pids) if pids else filter(str.isdigit, os.listdir("/proc")):
        try:
            living, maps = _maps(process, by_inode)
            exchanging = exchanging or find_exchanging(maps)
            for identity, address in _of_process(living, maps, by_inode, _differences):
                found.setdefault(identity, set()).add(address)
        except OSError:  # it has ended, or is none of ours
            continue
    patched = {identity: tuple(sorted(addresses)) for identity, addresses in found.items()}
    return Running(patched, exchanging)


def find_breakpoints(
    files: Iterable[File], pids: Iterable[int]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the addresses of code of ``files`` where the debuggers that trace processes ``pids``
    have a breakpoint, or may have one: they take their breakpoints out of memory while a process is
    stopped, which may be at one. By the identity of the file, in order."""
    by_inode = {file.identity[1]: _Traced(file) for file in files}
    found: dict[tuple[int, int], set[int]] = {}
    for process in (os.path.basename(directory_of(pid)) for pid in pids):
        with suppress(OSError):  # it has ended
            for identity, address in _of_process(*_maps(process, by_inode), by_inode, _breakpoints):
                found.setdefault(identity, set()).add(address)
            for identity, address in _stopped_at(process, by_inode):
                found.setdefault(identity, set()).add(address)
    return {identity: tuple(sorted(addresses)) for identity, addresses in found.items()}


def _stopped_at(process: str, by_inode: dict[int, _Traced]) -> Found:
    """Where threads are that their tracer has stopped."""
    pointers: set[int] = set()
    for thread in os.listdir(f"/proc/{process}/task"):
        with suppress(OSError, ValueError):  # it has ended, runs, or there is no such file
            if b"\nState:\tt" in read_bytes(f"/proc/{process}/task/{thread}/status"):
                number, *_, last = read_bytes(f"/proc/{process}/task/{thread}/syscall").split()
                if number == b"-1":  # not at a system call, as by strace
                    pointers.add(int(last, 16))
    for mapping in _mappings(read_bytes(f"/proc/{process}/maps")) if pointers else ():
        traced = by_inode.get(mapping.inode)
        if traced is None or not _is(process, mapping, traced.file):
            continue
        for pointer in pointers:
            if mapping.start <= pointer < mapping.end:
                yield from _addresses(traced, mapping.offset + pointer - mapping.start)


def _maps(process: str, by_inode: dict[int, _Traced]) -> tuple[str, bytes]:
    """The number of a process, or of a thread that still lives, and what it has mapped, if any of
    the files is among that."""
    if not (maps := read_bytes(f"/proc/{process}/maps")):
        thread = os.path.basename(directory_of(process))  # its number does as well
        if thread != process:
            process, maps = thread, read_bytes(f"/proc/{thread}/maps")
    return process, maps if any(b" %d " % inode in maps for inode in by_inode) else b""


def _of_process(
    process: str, maps: bytes, by_inode: dict[int, _Traced], compare: Comparison
) -> Found:
    mappings = [*_mappings(maps)]
    trampolines = [m for m in mappings if m.name == TRAMPOLINES]
    for mapping in mappings:
        traced = by_inode.get(mapping.inode)
        if traced is None or not _is(process, mapping, traced.file):
            continue
        for page in _own_pages(process, mapping):
            at = mapping.offset + page - mapping.start
            with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
                memory.seek(page)
                now = memory.read(PAGE)
            image = traced.image
            then = image.data[at : at + len(now)]
            if now[: len(then)] != then:
                for place in compare(now, then, page, image.machine, trampolines):
                    yield from _addresses(traced, at + place)


def _addresses(traced: _Traced, offset: int) -> Found:
    """Those of what is at ``offset`` of a file."""
    for segment in traced.image.executable_segments:
        if segment.offset <= offset < segment.offset + segment.size:
            yield traced.file.identity, segment.address + offset - segment.offset


def _mappings(maps: bytes) -> Iterator[_Mapping]:
    """Those of code, of the lines of ``/proc/PID/maps``."""
    for line in maps.split(b"\n")[:-1]:  # other ends of lines may be in names
        span, permissions, offset, _, inode, *name = line.split(maxsplit=5)
        if b"x" in permissions:
            start, _, end = span.partition(b"-")
            named = name[0] if name else b""
            yield _Mapping(int(start, 16), int(end, 16), int(offset, 16), int(inode), named)


def _is(process: str, mapping: _Mapping, file: File) -> bool:
    try:
        status = os.stat(f"/proc/{process}/map_files/{mapping.start:x}-{mapping.end:x}")
    except PermissionError:
        return True  # the inode has to do
    return (status.st_dev, status.st_ino) == file.identity


def _own_pages(process: str, mapping: _Mapping) -> Iterator[int]:
    """The addresses of pages that are the process's own, no longer those of the file."""
    with open(f"/proc/{process}/pagemap", "rb", buffering=0) as pages:
        pages.seek(mapping.start // PAGE * 8)
        entries = pages.read((mapping.end - mapping.start) // PAGE * 8)
    for number, (entry,) in enumerate(iter_unpack("<Q", entries[: len(entries) // 8 * 8])):
        if entry & SWAPPED or (entry & PRESENT and not entry & OF_FILE):
            yield mapping.start + number * PAGE


def _differences(
    now: bytes, then: bytes, page: int, machine: str, trampolines: list[_Mapping]
) -> Iterator[int]:
    """Where the page at ``page`` is another one, but for the probes of tracers."""
    from lbtrace.machine import Machine  # imported here because few processes have other code

    # Where another tracer has one, there may be more, also at the next instruction.
    kernel = Machine(machine).kernel
    stop, skip = kernel.BREAKPOINT, 0
    for at, (new, old) in enumerate(zip(now, then, strict=False)):
        if new == old or at < skip:
            continue
        begin = at - at % len(stop)
        end = begin + len(stop)
        alone = now[end : end + 1] == then[end : end + 1] or (
            now.startswith(stop, end) and kernel.begins_short(then[begin : begin + LONGEST])
        )
        if now.startswith(stop, begin) and alone:
            skip = end
        elif _leads_to(now, at, page, trampolines):
            skip = at + 5
        else:
            yield at


def _breakpoints(
    now: bytes, then: bytes, page: int, machine: str, trampolines: list[_Mapping]
) -> Iterator[int]:
    """Where the page has breakpoints that may be a debugger's. On arm64 those are no uprobes', so
    they are differences."""
    from lbtrace.machine import Machine  # imported here, as above

    stop = Machine(machine).kernel.BREAKPOINT
    if len(stop) == 1:
        for at, (new, old) in enumerate(zip(now, then, strict=False)):
            if new != old and new == stop[0]:
                yield at


def _leads_to(now: bytes, at: int, page: int, trampolines: list[_Mapping]) -> bool:
    if now[at] != 0xE8 or at + 5 > len(now) or not trampolines:
        return False
    target = page + at + 5 + int(unpack_from("<i", now, at + 1)[0])
    return any(m.start <= target < m.end for m in trampolines)
