"""Whether the kernel's uretprobes would harm programs by themselves: those that seccomp
confines, those with shadow stacks.

On x86-64 from Linux 6.11 on a uretprobe makes the traced program execute a
system call of its own, which kernels before 6.12.14 and 6.13.3 pass to the
program's seccomp filter (CVE-2025-21834). Filters do not know it, and kill.

A shadow stack holds return addresses as well. Before 6.11 (``shstk_update_last_frame``; on
arm64 6.18) the kernel replaces only the one on the stack, and the two differ: SIGSEGV.
"""

from __future__ import annotations

import os
import re

from lbtrace.machine import Machine
from lbtrace.system.procfs import read_bytes, read_lines, read_text

HANDLER = b"\0__x64_sys_uretprobe\0"
"""The name of the system call among those of the kernel's functions."""

CPUINFO = "/proc/cpuinfo"


def hazard() -> str:
    """Return why no uretprobe may be used on this kernel, or ``""``.

    Which programs will confine themselves, or start others that do, cannot be
    known beforehand: where it harms one, it is used in none.
    """
    if harms():
        return "this kernel asks seccomp about uretprobes, which kills confined programs"
    if forgets_shadow_stacks(os.uname().machine, os.uname().release, CPUINFO):
        return "this kernel does not know of uretprobes on shadow stacks, which programs may have"
    return ""


def forgets_shadow_stacks(machine: str, release: str, cpuinfo: str) -> bool:
    """Return whether processes may have shadow stacks, of which the kernel's uretprobes do not
    know."""
    shadow = Machine(machine).kernel.SHADOW_STACKS
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if shadow is None or numbers is None:
        return False
    version = int(numbers[1]), int(numbers[2])
    return shadow.since <= version < shadow.known and shadow.flag in read_text(cpuinfo).split()


def harms() -> bool:
    """Return whether this kernel passes a uretprobe's system call to seccomp."""
    from lbtrace.bpf import features  # imported here because not every importer needs it

    found = features.confines_uretprobes()
    if found is None:  # there is none, or our own filter keeps it from us
        return _confined() and has_system_call()
    return found


def _confined() -> bool:
    """Whether lbtrace itself is under seccomp."""
    lines = (line.split() for line in read_lines("/proc/self/status"))
    return any(words[0] == "Seccomp:" and words[1:] != ["0"] for words in lines if words)


def has_system_call() -> bool:
    """Return whether uretprobes make a system call of their own on this kernel."""
    try:
        return HANDLER in read_bytes("/sys/kernel/btf/vmlinux")
    except OSError:
        return True  # not known: be careful
