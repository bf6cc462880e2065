"""What the kernel demands of a process that loads BPF programs and probes."""

from __future__ import annotations

import os
import sys

from lbtrace.system.procfs import read_lines, read_text

CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_ADMIN": 21, "CAP_SYS_PTRACE": 19}
"""Bit numbers: include/uapi/linux/capability.h."""

NEEDED = ("CAP_BPF", "CAP_PERFMON")
"""What tracing needs where the kernel has uprobe_multi (6.6); CAP_SYS_ADMIN stands for both."""


INITIAL_MAP = ["0", "0", "4294967295"]
"""/proc/self/uid_map in the initial user namespace: all, as they are (user_namespaces(7))."""


def held() -> frozenset[str]:
    """Return the effective capabilities of this process, of those in `CAPABILITIES`.

    Those of a user namespace of its own do not count: the kernel requires them in the initial one
    (bpf_capable and perfmon_capable in include/linux/capability.h).
    """
    if _in_user_namespace():
        return frozenset()
    for line in read_lines("/proc/self/status"):
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)
    return frozenset()


def missing() -> tuple[str, ...]:
    """Return the capabilities that tracing needs and this process lacks."""
    have = held()
    return () if "CAP_SYS_ADMIN" in have else tuple(name for name in NEEDED if name not in have)


def advice(lacking: tuple[str, ...]) -> str:
    """Return how a process comes by the capabilities it lacks."""
    if _in_user_namespace():
        return "run it outside this user namespace (rootless container): no capability counts here"
    if os.geteuid() == 0:
        options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in lacking)
        return f"this root is confined: start its container with --privileged, or {options}"
    # Those that this process has are lost as well: sudo's root passes on none.
    wanted = dict.fromkeys((*NEEDED, *lacking))
    granted = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in wanted)
    command = sys.argv[0]
    if not os.access(command, os.X_OK) or command.endswith(".py"):
        command = f"{sys.executable} -m lbtrace"
    return (
        f"run it as root, or for one run: sudo setpriv --reuid={os.geteuid()}"
        f" --regid={os.getegid()} --init-groups --inh-caps={granted} --ambient-caps={granted}"
        f" {command} ..."
    )


def drop_inherited() -> None:
    """Drop the capabilities given to lbtrace before this process executes another program."""
    from lbtrace.bpf._libbpf import lib  # imported here because only commands are executed

    lib.lbt_drop_ambient()


def _in_user_namespace() -> bool:
    return read_text("/proc/self/uid_map").split() != INITIAL_MAP


def perf_forbidden() -> bool:
    """Return whether this process cannot open the perf events that plain probes are.

    Those of uprobes demand CAP_SYS_ADMIN, CAP_PERFMON is not enough
    (perf_uprobe_event_init in kernel/events/core.c; measured on 6.1 and 6.18).
    """
    return "CAP_SYS_ADMIN" not in held()
