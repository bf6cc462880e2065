"""Where threads were blocked for long: how long threads do not run is measured besides. On which
stacks they were blocked, and how long until they ran again: action ``stacks``."""

from lbtrace.model import Plan
from lbtrace.probes.source import Source

SOURCES = (
    Source(
        name="off_cpu",
        programs={"blocked": "switched"},
        attach=("off_cpu",),
    ),
    Source(
        name="blocked",
        programs={"point": "thread_switched"},
        attach=("tracepoint",),
        everywhere=True,
        timed=True,
    ),
)


def settings(plan: Plan) -> tuple[int, int, int]:
    """Return whether a plan asks how long threads do not run, 2 where it has functions of the
    kernel, too (``LBT_OFF_CPU_IN_KERNEL``), the number of its probe where they were blocked, and
    for how many ns at least."""
    probe = plan.off_cpu
    if probe is None or probe.event is None:
        bounds = (each.event.bound for each in plan.probes if each.event)
        return 0, 0, max(bounds, default=0)
    inside = any(probe.source == "kernel" for probe in plan.probes)
    return 1 + inside, plan.probes.index(probe), probe.event.number
