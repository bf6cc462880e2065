"""How long calls did not run, and where threads were blocked for long: ``--off-cpu``.

The kernel's scheduler is watched (bpf_src/off_cpu.h). The values of a point are in its event, they
are not fetched.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from lbtrace.errors import UsageError, option
from lbtrace.model import (
    NO_BINARY,
    OPEN,
    SENDING,
    Function,
    KernelEvent,
    Plan,
    Probe,
    Site,
    Type,
    Value,
)
from lbtrace.probes import ROLES
from lbtrace.syscalls import read_table
from lbtrace.values.duration import Duration
from lbtrace.values.enumeration import Enumeration
from lbtrace.values.integer import fixed_width

STATES = Enumeration("state", 4, False, ((1, "S"), (2, "D"), (4, "T"), (8, "t")))
"""How threads are blocked, as ps(1) calls it: interruptible, uninterruptible, stopped by a signal,
by a tracer. The numbers are those of the kernel (include/linux/sched.h)."""

NO_CALL = ((-1, "none"), (-2, "32-bit"))
"""Where there is no system call (a page fault), and where programs number them otherwise."""


def add(plan: Plan, bound: int) -> Plan:
    """Return ``plan`` with what it takes to split the durations of its calls; where a thread is
    blocked for ``bound`` ns or more is a point. Raises `UsageError`."""
    opening = (probe for probe in plan.probes if ROLES[probe.role].event == OPEN)
    if not any(probe.action in SENDING for probe in opening):
        raise UsageError(
            f"{option('off_cpu')} is about calls, and none is traced", "trace functions"
        )
    event = KernelEvent("off_cpu", max(1, bound))
    point = Probe(Site(0, 0), "blocked", len(plan.functions), "off_cpu", binary=NO_BINARY)
    notes = plan.notes
    if any(binary.go for binary in plan.binaries):
        notes += ("time off the CPU: not known of goroutines, which move between threads",)
    return replace(
        plan,
        functions=(*plan.functions, _point()),
        probes=(*plan.probes, replace(point, event=event)),
        notes=notes,
    )


def _point() -> Function:
    """What is shown of an interval off the CPU."""
    table = read_table(os.uname().machine)
    calls = tuple((call.number, name) for name, call in table.calls.items())
    values = (
        _time("blocked", 0),
        _time("runnable", 1),
        Value("state", STATES, 2),
        Value("syscall", Enumeration("syscall", 4, True, (*NO_CALL, *calls)), 3),
    )
    return Function("off-CPU", 0, 0, 0, (), values, None, typed=True, binary=NO_BINARY)


def _time(name: str, slot: int) -> Value:
    count: Type = fixed_width(8, signed=False)
    return Value(name, Duration("ns", 8, count, 1, 10**9), slot, members=(Value("", count, slot),))
