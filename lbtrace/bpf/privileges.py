"""What the kernel demands of a process that loads BPF programs and probes."""

from __future__ import annotations

from pathlib import Path

CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_ADMIN": 21, "CAP_SYS_PTRACE": 19}
"""Bit numbers: include/uapi/linux/capability.h."""

NEEDED = ("CAP_BPF", "CAP_PERFMON")
"""What tracing needs where the kernel has uprobe_multi (6.6); CAP_SYS_ADMIN stands for both."""


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
    """Whether this process cannot open the perf events that plain probes are.

    Those of uprobes demand CAP_SYS_ADMIN, CAP_PERFMON is not enough
    (perf_uprobe_event_init in kernel/events/core.c; measured on 6.1 and 6.18).
    """
    return "CAP_SYS_ADMIN" not in held()
