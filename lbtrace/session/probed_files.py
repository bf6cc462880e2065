"""The files that a trace has probes in: held open, and watched for changes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.model import Plan
from lbtrace.probes import PROBES
from lbtrace.session.file_content import Content
from lbtrace.system.file import Change, File
from lbtrace.system.procfs import directory_of
from lbtrace.targets.mapped_files import find_untouched

_NOTES: dict[Change, str] = {
    "replaced": "{} was replaced on disk: processes started since run another file,"
    " which is not traced",
    "removed": "{} was removed: it is still traced where it runs",
    "overwritten": "{} was overwritten in place: the trace ends, because its probes break"
    " the processes that run it",
    "copied": "{} was changed in an overlay: processes started since may run a copy of it,"
    " which is not traced",
}
"""What to say of each change, the path filled in."""

LOOK_PERIOD = 0.25
"""Seconds between two looks."""

LOOKED_AT = 256
"""Places of a file at which breakpoints are looked for."""


class ProbedFiles:
    """The files of a plan's binaries, in the same order.

    Raises `BinaryError` where one that ``files`` does not bring along cannot be
    opened, or is not the one that was planned.
    """

    def __init__(self, plan: Plan, files: Iterable[File] = ()) -> None:
        # Several may have one path: memfds of the same name, or what was replaced there.
        known: dict[str, deque[File]] = {}
        for file in files:
            known.setdefault(file.path, deque()).append(file)
        self.files: list[File] = []
        for binary in plan.binaries:
            same = known.get(binary.path)
            if same:
                file = same.popleft()
            else:
                image = Image.open(binary.path, any_machine=True)
                if image.build_id != binary.build_id:
                    raise _changed(binary.path, "another file than the one that was planned")
                file = image.file
            self.files.append(file)
        self._plan = plan
        self._next_look = 0.0
        self._contents: list[Content | None] = []
        self._sites: dict[int, dict[int, None]] = {}
        for probe in plan.probes:
            if probe.event or not PROBES[probe.source].attach:
                continue
            sites = self._sites.setdefault(probe.binary, {})
            if len(sites) < LOOKED_AT:
                sites[probe.site.offset] = None
        self._placed = False
        self._programs: set[tuple[int, int]] = set()
        self._stray: set[int] = set()
        self._changes: set[tuple[str, Change]] = set()

    def check(self, *, mapped: bool) -> None:
        """Raises `BinaryError` where one is not what was planned any more. What a process has
        ``mapped`` already may lie at its path or not."""
        for file, binary in zip(self.files, self._plan.binaries, strict=True):
            change = file.change()
            if change not in ("", "copied") and (change == "overwritten" or not mapped):
                raise _changed(file.path, change)
            image = Image(file, any_machine=True)
            if image.build_id != binary.build_id:
                raise _changed(file.path, "overwritten")
            if image.is_program:
                self._programs.add(file.identity)

    def add(self, file: File, plan: Plan) -> None:
        """Watch the file of the last binary of ``plan``, which the plan has got."""
        self.files.append(file)
        self._plan = plan

    def opened(self, plan: Plan) -> Plan:
        """Return ``plan``, which has these files, with the names of functions to be read in them,
        whatever is at their paths by then."""
        binaries = zip(plan.binaries, self.files, strict=True)
        named = (replace(b, names_in=f.opened) if b.names_in else b for b, f in binaries)
        return replace(plan, binaries=tuple(named))

    def is_due(self) -> bool:
        """Return whether it is time for a look."""
        return time.monotonic() >= self._next_look

    def look(self, pids: Sequence[int] = (), *, follows: bool = False) -> tuple[list[str], bool]:
        """Return notes of what has changed since the last look, and whether probes do harm by
        now; of the processes ``pids`` whether they have the probes and, unless the trace
        ``follows`` what they do, whether they run another program than the one planned."""
        self._next_look = time.monotonic() + LOOK_PERIOD
        changes = {
            (self.files[n].path, change)
            for n in range(len(self.files))
            if (change := self._change(n))
        }
        new = sorted(changes - self._changes)
        self._changes |= changes
        notes = [_NOTES[change].format(path) for path, change in new]
        if not self._placed:
            notes += (note for pid in pids for note in self._unplaced(pid))
            self._placed = True
        for pid in pids if not follows else ():
            if pid not in self._stray and (program := self.stray(pid)):
                self._stray.add(pid)
                notes.append(f"process {pid} runs {program}, whose functions are not traced")
        return notes, any(change == "overwritten" for _, change in new)

    def _change(self, number: int) -> Change:
        """What has happened to a file, but for its times."""
        file = self.files[number]
        if number == len(self._contents):
            self._contents.append(_content(self._plan, number, file))
        change = file.change()
        content = self._contents[number]
        if change == "overwritten" and content is not None and content.is_kept():
            change = file.change()
            return change if change != "overwritten" else ""  # not yet settled
        return change

    def _unplaced(self, pid: int) -> Iterator[str]:
        """Yield notes of the files that a process has mapped, but without probes."""
        for number, offsets in self._sites.items():
            file = self.files[number]
            if missing := len(find_untouched(pid, file, [*offsets])):
                many = "" if missing == len(offsets) else f" at {missing} of {len(offsets)} places"
                yield (
                    f"process {pid} has no probes in {file.path}{many}, so calls there are not"
                    " seen: its code is writable, was moved, or is another copy of the file (an"
                    " overlay's)"
                )

    def stray(self, pid: int) -> str:
        """Return the program that a process runs where another one was planned; empty otherwise."""
        link = f"{directory_of(pid)}/exe"
        try:
            status = os.stat(link)
            runs = (status.st_dev, status.st_ino)
            return os.readlink(link) if self._programs and runs not in self._programs else ""
        except OSError:  # it has ended
            return ""


def _content(plan: Plan, number: int, file: File) -> Content | None:
    try:
        return Content(plan, number, file)
    except (OSError, ValueError):
        return None


def _changed(path: str, how: str) -> BinaryError:
    return BinaryError(
        f"{path} is {how} since its probes were planned",
        "nothing was attached: trace again when the file is complete",
    )
