"""What the kernel demands of a process that loads BPF programs and probes."""

from __future__ import annotations

from pathlib import Path

CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_ADMIN": 21, "CAP_SYS_PTRACE": 19}
"""Bit numbers: include/uapi/linux/capability.h."""

NEEDED = ("CAP_BPF", "CAP_PERFMON")
"""What tracing needs from 5.8 on; CAP_SYS_ADMIN stands for both."""

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def held() -> frozenset[str]:
    """The effective capabilities of this process, of those in `CAPABILITIES`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)
    return frozenset()


def missing() -> tuple[str, ...]:
    """The capabilities that tracing needs and this process lacks."""
    have = held()
    return () if "CAP_SYS_ADMIN" in have else tuple(name for name in NEEDED if name not in have)


def perf_forbidden() -> bool:
    """Whether perf events, which plain probes are, need CAP_SYS_ADMIN here.

    ``kernel.perf_event_paranoid`` knows -1 to 2 (Documentation/admin-guide/sysctl/kernel.rst);
    Debian's kernels know 3 and use it.
    """
    try:
        paranoid = int(PARANOID.read_text())
    except OSError:
        return False
    return paranoid > 2 and "CAP_SYS_ADMIN" not in held()
