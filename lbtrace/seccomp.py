"""Whether the kernel's uretprobes would harm a process that seccomp confines.

On x86-64 from Linux 6.11 on a uretprobe makes the traced program execute a
system call of its own, which kernels before 6.12.14 and 6.13.3 pass to the
program's seccomp filter (CVE-2025-21834). Filters do not know it.
"""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path

from lbtrace.model import Target

SYSCALL = 335
"""``uretprobe`` in arch/x86/entry/syscalls/syscall_64.tbl."""

HANDLER = b"\0__x64_sys_uretprobe\0"
"""Its name among those of the kernel's functions."""

PR_SET_SECCOMP, SECCOMP_MODE_STRICT = 22, 1


def hazard(target: Target) -> str:
    """Why no uretprobe may be used in ``target``, or ``""``.

    What a process will do later cannot be told. A command begins with the
    confinement of lbtrace itself.
    """
    pid = target.pid or (os.getpid() if target.command else 0)
    if pid and confined(pid) and harms():
        return "the process is confined by seccomp, and this kernel asks it about uretprobes"
    return ""


def confined(pid: int) -> bool:
    """Whether a process is under seccomp; false where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    return any(
        line.split()[1:] not in ([], ["0"])
        for line in status.splitlines()
        if line.startswith("Seccomp:")
    )


def harms() -> bool:
    """Whether this kernel passes a uretprobe's system call to seccomp."""
    if platform.machine() != "x86_64":
        return False
    try:
        if HANDLER not in Path("/sys/kernel/btf/vmlinux").read_bytes():
            return False
    except OSError:
        return True  # not known: be careful
    child = os.fork()
    if child == 0:
        _call_confined()
    _, status = os.waitpid(child, 0)
    # Called by anyone but the kernel's own code it is an illegal instruction.
    return os.waitstatus_to_exitcode(status) != -signal.SIGILL


def _call_confined() -> None:
    """Make the system call where seccomp allows next to nothing; does not return."""
    import ctypes  # late: seldom needed
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGILL, signal.SIG_DFL)
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)
        libc.syscall(SYSCALL)
    finally:
        os._exit(1)
