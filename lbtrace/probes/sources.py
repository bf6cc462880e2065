"""All sources of probes, each a row of `SOURCES`. How to add one: docs/extending.md."""

from collections.abc import Iterable

from lbtrace.model import Plan, Probe
from lbtrace.probes.source import Source

UNREAD = "syscall, unread"
"""The event that a system call ends of which something could not be read when it began:
bpf_src/programs/atomic/syscall.h."""

AFTER_CALL = "after call"
AFTER_ANY_CALL = "after any call"
"""What relays are that are attached while a trace runs: lbtrace/session/return_places.py. It is not
attached itself, and on no instruction."""

OTHERWISE = "otherwise"
"""What a hit of the probe before it in the plan is, a jump to another function, where the call will
not be seen to return: bpf_src/return_places.h. It is not attached itself."""

SOURCES = (
    # An instruction of a file, in every process that maps it: uprobes
    # (Documentation/trace/uprobetracer.rst of the kernel).
    Source(
        name="uprobe",
        programs={
            **{"opens": "entered", "closes": "exit_site", "tail": "exit_site"},
            **{"tail return": "exit_site", "point": "reached", "more values": "reached"},
            **{"landing": "landed", "crash": "landed", "panic": "reached", "stack": "reached"},
            **{"stack below": "reached", "exchange": "reached", "lane end": "reached"},
        },
        attach=("multi", "plain"),
    ),
    # The kernel replaces the return address of a call that begins at the site.
    Source(
        name="uretprobe",
        programs={"closes": "returned"},
        attach=("session", "multi", "plain"),
        at_return=True,
        paired="session",
    ),
    # Behind a call in a file, where calls return that have jumped to what is not watched.
    Source(
        name=AFTER_CALL,
        programs={"tail return": "after_call"},
        attach=("multi", "plain"),
        precedes=True,
    ),
    Source(name=AFTER_ANY_CALL, programs={}, attach=()),
    Source(name=OTHERWISE, programs={}, attach=()),
    # A place that the authors of a program marked for tracers (USDT): a uprobe that raises a
    # counter in the program while it is attached, by which many decide whether to come there.
    Source(
        name="marker",
        # One that closes a call may be a point, which names its thread.
        programs={"point": "reached", "opens": "entered", "closes": "reached"},
        attach=("multi", "plain"),
        pairing="lane",
        raises_counter=True,
    ),
    # A system call: the tracepoints by which a thread enters the kernel and leaves it.
    Source(
        name="syscall",
        programs={"opens": "syscall_entered", "closes": "syscall_left"},
        attach=("raw_tracepoint",),
        everywhere=True,
    ),
    # A tracepoint: a place in the kernel that its authors named for tracers.
    Source(
        name="tracepoint",
        programs={"point": "tracepoint_hit"},
        attach=("tracepoint",),
        everywhere=True,
    ),
    # Functions of the kernel: kprobes and kretprobes (Documentation/trace/kprobes.rst there).
    Source(
        name="kernel",
        programs={"opens": "kernel_entered"},
        attach=("kernel_multi", "kernel_plain"),
        tried=True,
        everywhere=True,
    ),
    Source(
        name="kernel place",
        programs={"point": "kernel_reached"},
        attach=("kernel_plain",),
        tried=True,
        everywhere=True,
    ),
    Source(
        name="kernel return",
        programs={"closes": "kernel_returned"},
        attach=("kernel_multi", "kernel_plain"),
        tried=True,
        everywhere=True,
        at_return=True,
    ),
    # How long threads do not run is measured beside calls, and where they were blocked for long.
    Source(name="off_cpu", programs={"blocked": "switched"}, attach=("off_cpu",)),
    # On which stacks threads were blocked, and how long until they ran again: action ``stacks``.
    Source(
        name="blocked",
        programs={"point": "thread_switched"},
        attach=("tracepoint",),
        everywhere=True,
        timed=True,
    ),
)


def finds_returns(probes: Iterable[Probe]) -> bool:
    """Return whether a plan with these probes may get others while it runs, where calls return."""
    return any(probe.source == AFTER_ANY_CALL for probe in probes)


def measured_off_cpu(plan: Plan) -> tuple[int, int, int]:
    """Return whether a plan asks how long threads do not run, 2 where it has functions of the
    kernel, too (``LBT_OFF_CPU_IN_KERNEL``), the number of its probe where they were blocked, and
    for how many ns at least."""
    probe = plan.off_cpu
    if probe is None or probe.event is None:
        bounds = (each.event.bound for each in plan.probes if each.event)
        return 0, 0, max(bounds, default=0)
    inside = any(probe.source == "kernel" for probe in plan.probes)
    return 1 + inside, plan.probes.index(probe), probe.event.number
