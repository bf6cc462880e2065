"""Adds probes to a trace that runs, in files that its processes map meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from lbtrace.bpf import features
from lbtrace.bpf.mappings import Mappings
from lbtrace.errors import KernelError
from lbtrace.model import Addition, Plan
from lbtrace.plan.merge import as_addition, attached_since
from lbtrace.session.later import LaterFiles, describe
from lbtrace.system.file import File
from lbtrace.system.limits import allow_open_files

if TYPE_CHECKING:
    from lbtrace.session.attached import Attached
    from lbtrace.session.request import Request

NOT_ALL = "its markers are not traced, or not all"


def watch(
    later: Request,
    attached: Attached,
    processes: Iterable[int],
    say: Callable[[str], None],
) -> Growth | None:
    """Return the growth of a trace as ``later`` asks for, see `Growth`; None, and the reason is
    said, where the kernel does not tell what is mapped."""
    if not features.probe().cookie:
        say("markers in files that are loaded later are not traced: that needs Linux 5.15")
        return None
    allow_open_files(0)  # as far as possible: each file is held open, each plain probe takes two
    files = LaterFiles(later, attached.reach, attached.probed.files)
    try:
        return Growth(files, attached, processes)
    except KernelError as error:
        say(f"markers in files that are loaded later are not traced: {error.message}")
        return None


class Growth:
    """The additions to a plan, as ``later`` finds them in what the first process maps and those
    that are followed. The first look is at ``processes``, which may have mapped something since
    their files were planned. Raises `KernelError`."""

    def __init__(self, later: LaterFiles, attached: Attached, processes: Iterable[int]) -> None:
        self._later = later
        self._attached = attached
        self._root = attached.root
        self._mappings = Mappings()
        self._due = set(processes)

    def fileno(self) -> int:
        """Readable as soon as some process of the machine has mapped code."""
        return self._mappings.fileno()

    def close(self) -> None:
        """Watch no more; what was added stays."""
        self._mappings.close()

    def look(self, plan: Plan, say: Callable[[str], None]) -> Iterator[Addition]:
        """Yield what is added to ``plan``, after it was attached."""
        pids, uncertain = self._mappings.take()
        traced = self._attached.traced
        due = self._due | {pid for pid in pids if pid == self._root or pid in traced.followed}
        if uncertain:
            due |= {self._root, *traced.followed}
        self._due.clear()
        for pid in sorted(due):
            for found in self._later.look(pid):
                say(found.note)
                if found.traced is not None:
                    file, planned = found.traced
                    addition = as_addition(planned, plan)
                    plan = plan.grown(addition)
                    self._attach(plan, addition, file, say)
                    # What was hit before has been read already, or comes with an earlier time.
                    yield attached_since(addition, time.monotonic_ns())

    def _attach(
        self, plan: Plan, addition: Addition, file: File, say: Callable[[str], None]
    ) -> None:
        try:
            self._attached.attach(plan, addition, file)
        except KernelError as error:
            say(f"{file.path}: {NOT_ALL}: {error.message}")
        except Exception as error:  # whatever the file leads to, the trace goes on
            say(f"{file.path}: {NOT_ALL}: {describe(error)}")
