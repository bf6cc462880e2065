"""Which programs of tracepoints have backup programs: bpf_src/backup_programs.h."""

from __future__ import annotations

from collections.abc import Iterable

from lbtrace.bpf.features import preempts
from lbtrace.model.wire_limits import BACKUP_PROGRAMS

FORGETTING = ("exited", "ended")
"""Those that lose nothing when they are missed: a new process or thread of that number is
distinguished."""

CALLS = ("kernel_entered", "kernel_returned")
"""Those of a call of a function of the kernel."""

TURNS = ("syscall_entered", "syscall_left")
"""Those of the ends of system calls. Backup programs tell a thread's calls apart by both."""

TURN = "_turn"
"""What the name of the program ends with that is attached for one of these and has the backup
programs."""

INTERRUPTING = (*CALLS, "kernel_reached")
"""Those that the kernel skips while another one runs, for interrupts, whose calls are left out
anyway, at both ends; and for tasks where it preempts bpf(2) (`preempts`)."""

ENDS = tuple(f"_{number}" for number in range(1, BACKUP_PROGRAMS + 1))
"""What the names of backup programs end with, after those of their programs."""


def with_backups(programs: Iterable[str]) -> tuple[str, ...]:
    """Return ``programs`` and, after them, the backup programs of each that has some, in the order
    in which they are to be attached."""
    named = tuple(programs)
    served = [name for name in named if name not in FORGETTING]
    return (*named, *(name + end for end in ENDS for name in served))


def loses(name: str) -> bool:
    """Return whether calls may be lost each time that the kernel skips a program."""
    return name not in FORGETTING and (name not in INTERRUPTING or preempts())


def served_by(name: str) -> str | None:
    """Return the name of the program that a backup program is of, None where it is none."""
    return next((name.removesuffix(end) for end in ENDS if name.endswith(end)), None)
