"""Keeps plans between runs, in the user's cache (`lbtrace.files.cache`).

A plan is taken from there if everything is as it was: the request, lbtrace and what it is made of,
the kernel, the user, the variables that decide which files are found, each file that was looked
at or looked for (`lbtrace.system.lookups`), the code that is probed, and the code that running
processes have changed in memory, which is looked for again. What the kernel can do, and whether its
uretprobes do harm, stays as it is until the next boot. Plans for a running process are not kept.

What is in the cache was written by this user, but may be damaged or of another lbtrace: whatever
is wrong with it, the plan is made anew.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from lbtrace.capture.check import find_faults
from lbtrace.capture.layout import DECODING_ERRORS, decode_plan, encode_plan
from lbtrace.errors import LbtraceError
from lbtrace.files import cache
from lbtrace.session.planned_code import sum_code
from lbtrace.session.request import Prepared, Request
from lbtrace.system.file import File
from lbtrace.system.lookups import Lookups, of_status, state_of
from lbtrace.system.procfs import read_lines, read_text
from lbtrace.targets.patched_code import find_patched
from lbtrace.targets.reach import Reach

LARGEST = 64 << 20
"""Bytes of a plan that is kept."""

VARIABLES = ("HOME", "PATH", "PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME")
FAMILIES = ("DEBUGINFOD_", "GLIBC_", "LD_")
"""Variables of the environment, and beginnings of their names, that decide what files are found."""

LIBRARIES = ("cffi", "elftools", "iced_x86", "msgspec", "rust_demangler")
"""The packages that lbtrace is made of besides its own."""

BOOT = "/proc/sys/kernel/random/boot_id"

OWN_STATUS = ("CapEff:", "Seccomp:")
"""What decides which files and features this process is allowed to use (proc_pid_status(5))."""

SIZE = 8
"""Bytes that hold the size of the entry, before it; the plan comes after it."""


Patched: TypeAlias = tuple[tuple[int, int, tuple[int, ...]], ...]


class _Entry(Struct, frozen=True, array_like=True):
    """What a plan depends on: the ``key`` of its request, the ``states`` of files, the ``paths`` of
    those that have probes, and what `Prepared` says besides the plan; ``patched`` is the device and
    inode of each file with changed code, and where that is; ``code`` is `sum_code` of the plan."""

    key: bytes
    states: tuple[tuple[bytes, bytes, tuple[int, ...]], ...]
    paths: tuple[bytes, ...]
    patched: Patched
    code: tuple[int, ...]
    reach: Reach
    notes: tuple[str, ...]


class Place:
    """Where the plan of a request is kept."""

    def __init__(self, request: Request, key: bytes) -> None:
        self._request = request
        self._key = key
        # Different requests may share a file: the one that is in it has its key there.
        name = f"{zlib.crc32(key):x}-{zlib.adler32(key):x}"
        self._cache = cache.Cache(cache.directory(), name)

    def load(self) -> Prepared | None:
        """Return the plan; None where there is none that is still right."""
        found = self._cache.load(".plan")
        if found is None:
            return None
        with memoryview(found.data)[found.start :] as content:
            end = SIZE + int.from_bytes(content[:SIZE], "little")
            try:
                entry = msgspec.msgpack.decode(content[SIZE:end], type=_Entry)
                return self._checked(entry, content[end:]) if entry.key == self._key else None
            except (*DECODING_ERRORS, LbtraceError, OSError, LookupError, ValueError):
                return None

    def _checked(self, entry: _Entry, written: memoryview) -> Prepared | None:
        states = {os.fsdecode(path): (os.fsdecode(real), n) for path, real, n in entry.states}
        if any(state_of(path) != state for path, state in states.items()):
            return None
        # From here on these descriptors are what is probed: their files are the ones to check.
        files = tuple(File(os.fsdecode(path)) for path in entry.paths)
        if any(of_status(os.fstat(f.descriptor)) != states[f.path][1] for f in files):
            return None
        target = self._request.target
        running = find_patched(files, target, entry.reach)
        if _rows(running.patched) != entry.patched:
            return None
        plan = decode_plan(written)
        if next(find_faults(plan), None) is not None or sum_code(plan, files) != entry.code:
            return None
        later = self._request if plan.may_grow else None
        rest = (entry.reach, entry.notes, later, running.exchanging)
        return Prepared(plan, target, files, *rest)

    def store(self, prepared: Prepared, lookups: Lookups) -> None:
        """Keep a plan that was made while ``lookups`` were recorded, if that is possible."""
        if not lookups.certain or any(f.path not in lookups.states for f in prepared.files):
            return
        states = (
            (os.fsencode(path), os.fsencode(real), numbers)
            for path, (real, numbers) in lookups.states.items()
        )
        paths = tuple(os.fsencode(file.path) for file in prepared.files)
        try:
            entry = _Entry(
                self._key,
                tuple(states),
                paths,
                _rows(prepared.patched),
                sum_code(prepared.plan, prepared.files),
                prepared.reach,
                prepared.notes,
            )
            head = msgspec.msgpack.encode(entry)
            plan = encode_plan(prepared.plan)
        except (OSError, OverflowError, UnicodeEncodeError):  # bytes that are no text, in a note
            return
        if len(plan) <= LARGEST:
            self._cache.store(".plan", (len(head).to_bytes(SIZE, "little"), head, plan))


def _rows(patched: Mapping[tuple[int, int], tuple[int, ...]]) -> Patched:
    return tuple((*file, places) for file, places in sorted(patched.items()))


def place_of(request: Request) -> Place | None:
    """Return where the plan of ``request`` is kept; None where it is not to be kept."""
    if request.target.pids:
        return None
    try:
        key = (
            *(sys.version, sys.path, _installed(), request),
            *(tuple(os.uname()), read_text(BOOT), *_allowed(), os.getcwd()),
            *(sorted(_variables()), os.geteuid(), os.getegid(), os.getgroups()),
        )
    except OSError:  # the working directory is gone, or /proc is not mounted
        return None
    return Place(request, repr(key).encode("utf-8", "backslashreplace"))


def _allowed() -> list[str]:
    return [line for line in read_lines("/proc/self/status") if line.startswith(OWN_STATUS)]


def _variables() -> Iterator[tuple[str, str]]:
    for name, value in os.environ.items():
        if name in VARIABLES or name.startswith(FAMILIES):
            yield name, value


def _installed() -> tuple[int, ...]:
    """What changes when lbtrace, or a library that it uses, is changed."""
    libraries = [f"{folder}/{name}" for folder in sys.path for name in LIBRARIES]
    program = sorted(_program(os.path.dirname(os.path.dirname(__file__))))
    return (*map(_changed, libraries), len(program), zlib.crc32(repr(program).encode()))


def _changed(path: str) -> int:
    """The time of the last change to its inode, 0 where there is nothing."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return 0


def _program(folder: str) -> Iterator[tuple[str, int, int]]:
    """The files of lbtrace, each with its size and the time of the last change to its inode."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _program(entry.path)
            else:
                status = entry.stat()
                yield entry.path, status.st_size, status.st_ctime_ns
