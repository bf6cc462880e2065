"""What the kernel demands of a process that loads BPF programs and probes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_ADMIN": 21, "CAP_SYS_PTRACE": 19}
"""Bit numbers: include/uapi/linux/capability.h."""

NEEDED = ("CAP_BPF", "CAP_PERFMON")
"""What tracing needs where the kernel has uprobe_multi (6.6); CAP_SYS_ADMIN stands for both."""


INITIAL_MAP = ["0", "0", "4294967295"]
"""/proc/self/uid_map in the initial user namespace: all, as they are (user_namespaces(7))."""


def held() -> frozenset[str]:
    """The effective capabilities of this process, of those in `CAPABILITIES`.

    Those of a user namespace of its own do not count: the kernel asks for them
    in the initial one (bpf_capable and perfmon_capable in include/linux/capability.h).
    """
    if _in_user_namespace():
        return frozenset()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)
    return frozenset()


def missing() -> tuple[str, ...]:
    """The capabilities that tracing needs and this process lacks."""
    have = held()
    return () if "CAP_SYS_ADMIN" in have else tuple(name for name in NEEDED if name not in have)


def advice(lacking: tuple[str, ...]) -> str:
    """How a process comes by the capabilities it lacks."""
    if _in_user_namespace():
        return "run it outside this user namespace (rootless container): no capability counts here"
    if os.geteuid() == 0:
        options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in lacking)
        return f"this root is confined: start its container with --privileged, or {options}"
    granted = ",".join(name.lower() for name in lacking)
    return f"run it as root, or: setcap {granted}+ep {os.path.realpath(sys.executable)}"


def _in_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() != INITIAL_MAP


def perf_forbidden() -> bool:
    """Whether this process cannot open the perf events that plain probes are.

    Those of uprobes demand CAP_SYS_ADMIN, CAP_PERFMON is not enough
    (perf_uprobe_event_init in kernel/events/core.c; measured on 6.1 and 6.18).
    """
    return "CAP_SYS_ADMIN" not in held()
