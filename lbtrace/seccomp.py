"""Whether the kernel's uretprobes would harm programs that seccomp confines.

On x86-64 from Linux 6.11 on a uretprobe makes the traced program execute a
system call of its own, which kernels before 6.12.14 and 6.13.3 pass to the
program's seccomp filter (CVE-2025-21834). Filters do not know it, and kill.
"""

from __future__ import annotations

from pathlib import Path

HANDLER = b"\0__x64_sys_uretprobe\0"
"""The name of the system call among those of the kernel's functions."""


def hazard() -> str:
    """Why no uretprobe may be used on this kernel, or ``""``.

    Which programs will confine themselves, or start others that do, cannot be
    told beforehand: where it harms one, it is used in none.
    """
    if harms():
        return "this kernel asks seccomp about uretprobes, which kills confined programs"
    return ""


def harms() -> bool:
    """Whether this kernel passes a uretprobe's system call to seccomp."""
    from lbtrace.bpf import features  # late: not all that imports this asks

    found = features.confines_uretprobes()
    if found is None:  # there is none, or our own filter keeps it from us
        return _confined() and _has_system_call()
    return found


def _confined() -> bool:
    """Whether lbtrace itself is under seccomp."""
    status = Path("/proc/self/status").read_text(errors="replace")
    lines = (line.split() for line in status.splitlines())
    return any(words[0] == "Seccomp:" and words[1:] != ["0"] for words in lines if words)


def _has_system_call() -> bool:
    try:
        return HANDLER in Path("/sys/kernel/btf/vmlinux").read_bytes()
    except OSError:
        return True  # not known: be careful
