"""Whether the system calls of traced processes are watched, which uretprobes add to.

On x86-64 from Linux 6.11 on the trampoline to which a hooked function returns makes a system
call (``arch_uretprobe_trampoline``, arch/x86/kernel/uprobes.c). A process that traces the
program with ptrace(2) sees it among those of the program; where it emulates them
(``PTRACE_SYSEMU``) the program crashes. Sessions refuse the hook while somebody watches
(bpf_src/stacks.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbtrace.errors import BinaryError
from lbtrace.model import Target
from lbtrace.system.procfs import directory_of, read_lines
from lbtrace.targets import seccomp

if TYPE_CHECKING:
    from lbtrace.elf.loaded_files import Closure


def object_to_uretprobes(watcher: str) -> str:
    """Return what speaks against uretprobes where that ``watcher``, if any, is; or ``""``."""
    if watcher and seccomp.has_system_call():
        return f"system calls are watched by {watcher}, and a uretprobe makes one"
    return ""


def find_watcher(target: Target, around: Closure | None) -> str:
    """Return what watches the system calls of ``target``; empty if nothing does."""
    if target.pids:
        tracer = next(filter(None, map(tracer_of, target.pids)), 0)
        return f"process {tracer}, which traces it" if tracer else ""
    if not target.command or around is None or not around.paths:
        return ""
    # Imported here because a watcher that is known needs no file.
    from lbtrace.elf.dynamic import Dynamic
    from lbtrace.elf.image import Image

    program = around.paths[0]
    try:
        imports = Dynamic(Image.open(program)).imports
    except BinaryError:
        return ""
    return f"{program}, which imports ptrace" if "ptrace" in imports else ""


def tracer_of(pid: int) -> int:
    """Return the process that traces ``pid`` with ptrace, 0 for none. See proc_pid_status(5)."""
    try:
        lines = read_lines(f"{directory_of(pid)}/status")
    except OSError:  # what needs it says so
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("TracerPid:")), 0)
