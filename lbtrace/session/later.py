"""Markers in files that the traced processes map while the trace runs: plugins, what libstapsdt
makes, programs that are executed later."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from lbtrace.capture.check import find_faults
from lbtrace.elf.image import Image
from lbtrace.errors import LbtraceError, TargetError
from lbtrace.model import Plan
from lbtrace.plan.markers import make_ready
from lbtrace.session.planning import plan_mapped
from lbtrace.session.request import Request
from lbtrace.system.file import File
from lbtrace.targets.mapped_files import Mapped, mapped_files
from lbtrace.targets.reach import Reach
from lbtrace.text import some

MOST = 1000
"""Files that are traced besides those of the start: each is held open."""

REMEMBERED = 100_000
"""Files without wanted markers that are not looked at again."""


NOT_TRACED = "whose markers are not traced"

LONGEST = 200
"""Characters of an error that nobody foresaw: it may hold names of the file."""


class Found(Struct, frozen=True):
    """A file with wanted markers that a process has mapped: what to say of it, and the ``plan`` for
    its markers, where they are traced."""

    note: str
    traced: tuple[File, Plan] | None = None


class LaterFiles:
    """The files with wanted markers that processes have mapped, besides those of ``files``, which
    are planned already.

    A file is found once, whichever processes map it, and however often: it is held open, so that
    the kernel gives its inode number to no other one. Of other files the time of the last change
    says whether the number still means the same.
    """

    def __init__(self, request: Request, reach: Reach, files: Iterable[File]) -> None:
        make_ready(os.uname().machine)
        self._request = request
        self._reach = reach
        self._planned = {file.identity for file in files}
        self._others: set[tuple[int, int, int]] = set()
        self._refused: set[str] = set()
        self._room = MOST

    def look(self, pid: int) -> Iterator[Found]:
        """Yield what process ``pid`` has mapped and no process had before; nothing if it has
        ended."""
        try:
            mapped = mapped_files(pid)
        except TargetError:
            return
        for each in mapped:
            found = self._look_at(each) if self._room else None
            if found is not None:
                self._room -= 1
                yield found

    def _look_at(self, mapped: Mapped) -> Found | None:
        try:
            entry = _find_entry(mapped)
            if not entry:
                return self._refuse(mapped)
            status = os.stat(entry)
        except OSError:  # it is not mapped any more
            return None
        key = (status.st_dev, status.st_ino, status.st_ctime_ns)
        if key[:2] in self._planned or key in self._others:
            return None
        if len(self._others) >= REMEMBERED:
            self._others.clear()
        try:
            image = Image(File(entry, mapped.path))
        except Exception:  # it is no program that can be read, whatever it is
            self._others.add(key)
            return None
        found = self._plan(mapped, image)
        if found is None:
            self._others.add(key)
        else:
            self._planned.add(image.file.identity)
        return found

    def _refuse(self, mapped: Mapped) -> Found | None:
        """What to say, once, of a file that may not be opened through the process, and lies
        nowhere else."""
        if mapped.path in self._refused or len(self._refused) >= MOST:
            return None
        self._refused.add(mapped.path)
        return Found(
            f"process {mapped.pid} has loaded {mapped.path}, which cannot be opened: markers in it"
            " are not traced (run lbtrace as root, or give it CAP_CHECKPOINT_RESTORE)"
        )

    def _plan(self, mapped: Mapped, image: Image) -> Found | None:
        loaded = f"process {mapped.pid} has loaded {mapped.path}"
        try:
            plan = plan_mapped(self._request, image, mapped.pid, self._reach)
            if plan is None:
                return None
            fault = next(find_faults(plan), None)
        except LbtraceError as error:
            return Found(f"{loaded}, {NOT_TRACED}: {error.message}")
        except Exception as error:  # whatever a damaged file leads to, the trace goes on
            return Found(f"{loaded}, {NOT_TRACED}: {describe(error)}")
        if fault is not None:
            return Found(f"{loaded}, {NOT_TRACED}: {fault}")
        names = some(list(dict.fromkeys(function.name for function in plan.functions)))
        last = "" if self._room > 1 else f"; it is the last one: {MOST:,} are traced at most"
        note = f"{loaded}: {names}: traced from now on{last}"
        return Found(note, (image.file, plan))


def describe(error: Exception) -> str:
    """What to say of an error that nobody foresaw, in a line."""
    return f"lbtrace failed ({type(error).__name__}: {error})"[:LONGEST]


def _find_entry(mapped: Mapped) -> str:
    """A path that leads to the very file; empty where none does that may be followed. Raises
    `OSError` where it is not mapped any more."""
    try:
        os.stat(mapped.entry)
    except PermissionError:
        return mapped.inside if mapped.is_at(mapped.inside) else ""
    return mapped.entry
