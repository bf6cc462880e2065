"""What the running kernel can do, found by trying, never by its version."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check, start_log
from lbtrace.system.procfs import read_bytes, read_text

BTF = "/sys/kernel/btf/vmlinux"
UPROBE_PMU = "/sys/bus/event_source/devices/uprobe/type"
COUNTERS = "/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset"
"""Is there where the kernel raises counters of markers: kernel/events/core.c."""
MULTI, SESSION = b"\0BPF_TRACE_UPROBE_MULTI\0", b"\0BPF_TRACE_UPROBE_SESSION\0"
"""Names among the kernel's types (enum bpf_attach_type in include/uapi/linux/bpf.h)."""


class Features(Struct, frozen=True):
    """``cookie``: a program learns which probe was hit (5.15). ``multi``: one
    link for thousands of uprobes (6.6). ``session``: one program for entry and
    return (6.13)."""

    cookie: bool
    multi: bool
    session: bool


class Feature(Struct, frozen=True):
    """An answer for a person: what it is, whether it works, since when kernels
    have it, what it is good for, and how it is ``without``, or what to do then."""

    name: str
    works: bool
    since: str
    purpose: str
    without: str


def probe() -> Features:
    """Ask for what decides how to attach; takes less than a millisecond.

    Raises `PrivilegeError` where nothing may be loaded.
    """
    multi = _multi(lib.BPF_TRACE_UPROBE_MULTI)
    return Features(
        cookie=multi or has_cookies(),
        multi=multi,
        session=multi and _multi(lib.BPF_TRACE_UPROBE_SESSION),
    )


def survey() -> tuple[Feature, ...]:
    """Everything lbtrace asks of a kernel. Raises `PrivilegeError`."""
    start_log()  # or libbpf prints what it misses
    known = probe()
    ring = lib.libbpf_probe_bpf_map_type(lib.BPF_MAP_TYPE_RINGBUF, ffi.NULL)
    return (
        Feature(
            *("btf", has_btf(), "5.5", "the kernel's types, for objects built elsewhere"),
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y; in a container, mount /sys",
        ),
        Feature(
            *("ring buffer", ring == 1, "5.8", "events in order, shared by all CPUs"),
            "use a later kernel",
        ),
        Feature(
            *("uprobe", known.multi or _readable(UPROBE_PMU), "4.17", "probes in user programs"),
            "use a kernel with CONFIG_UPROBE_EVENTS=y; in a container, mount /sys",
        ),
        Feature(
            *("cookie", known.cookie, "5.15", "lets all probes share a program"),
            "each probe needs its own, and 4,000 are the limit",
        ),
        Feature(
            *("sleepable", may_sleep(), "6.1", "reads memory whose page is not loaded yet"),
            "it is shown as <fault>",
        ),
        Feature(
            *("multi", known.multi, "6.6", "thousands of probes attached at once"),
            "they are detached one by one, ten a second",
        ),
        Feature(
            *("session", known.session, "6.13", "one program for entry and return"),
            "the return of a call costs also where --where leaves it out",
        ),
        Feature(
            *("usdt", known.multi or _readable(COUNTERS), "4.20", "turns on markers (USDT)"),
            "markers that a counter guards are not seen",
        ),
    )


def _multi(attach_type: int) -> bool:
    return bool(check(lib.lbt_probe_multi(attach_type), "load a BPF program"))


def may_sleep() -> bool:
    """Return whether the program of a probe can wait for a page of memory (6.1)."""
    return bool(lib.lbt_probe_sleepable())


def has_cookies() -> bool:
    """Return whether a program learns which probe was hit (5.15)."""
    return _helper(lib.BPF_FUNC_get_attach_cookie)


def filters_by_thread(release: str) -> bool:
    """Return whether ``multi`` with a pid may trace that thread only, not its whole process.

    A fault of 6.6 to 6.9 ("bpf: Fix multi-uprobe PID filtering logic", 6.10; in stable
    ones from 6.6.33 and 6.9.4), which only ``release`` shows.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and (6, 6) <= (int(numbers[1]), int(numbers[2])) < (6, 10)


def preempts_tracepoints(release: str) -> bool:
    """Return whether a task may be preempted in the program of a tracepoint, so that the kernel
    skips it for others.

    From 7.0 on ("tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast"). The
    kernel's types show it as well, but reading them takes longer than all that depends on it.
    """
    numbers = re.match(r"(\d+)\.", release)
    return numbers is not None and int(numbers[1]) >= 7


def preempts() -> bool:
    """Return whether a task may be preempted inside the kernel, or that is not known. If it is
    while it reads a map by bpf(2), no probe of the kernel's functions runs on that CPU until it
    goes on (bpf_disable_instrumentation() in include/linux/bpf.h)."""
    try:
        modes = read_text("/sys/kernel/debug/sched/preempt")  # the present one in parentheses
    except OSError:
        return "PREEMPT" in os.uname().version
    return "(full)" in modes or "(lazy)" in modes


def typed_task() -> bool:
    """Return whether probes can read the current task directly (5.11)."""
    return _helper(lib.BPF_FUNC_get_current_task_btf)


def finds_mappings() -> bool:
    """Return whether probes can look up the mapping that holds an address (5.17)."""
    return _helper(lib.BPF_FUNC_find_vma)


def _helper(number: int) -> bool:
    found = lib.libbpf_probe_bpf_helper(lib.BPF_PROG_TYPE_KPROBE, number, ffi.NULL)
    return bool(found == 1)


def confines_uretprobes() -> bool | None:
    """Return whether the kernel passes the system call of uretprobes to seccomp, which kills.

    None where no such system call is seen (it exists on x86-64 from 6.11 on).
    """
    found = int(lib.lbt_probe_uretprobe_confined())
    return None if found < 0 else bool(found)


def names(constant: bytes) -> bool:
    """Return whether the kernel's types hold a name: for a process that may not ask the kernel
    itself."""
    try:
        return constant in read_bytes(BTF)
    except OSError:
        return False


def has_btf() -> bool:
    """Return whether the kernel has type information (BTF), which CO-RE objects need."""
    return _readable(BTF)


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK)
