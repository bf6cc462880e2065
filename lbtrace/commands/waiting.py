"""What a trace of running processes waits for, in words."""

from __future__ import annotations

from lbtrace.model import Plan, Target
from lbtrace.text import some


def waiting(plan: Plan, target: Target) -> str:
    """Return a line that says for what of which processes a trace waits."""
    if not plan.functions:
        load = "loads" if len(target.pids) == 1 else "load"
        return f"waiting for markers in what {_these(target)} {load}; Ctrl-C ends"
    traced = traced_files(plan)
    paths = " and ".join(traced)
    them = "it" if len(traced) == 1 else "them"
    where = _these(target) if target.pids else "every process"
    where += f" of cgroup {target.cgroup}" if target.cgroup else ""
    where += f" that runs {them}" if traced and not target.pids else ""
    what = f"{_count_traced(plan)} of {paths} in" if traced else f"{_count_traced(plan)} of"
    return f"tracing {what} {where}; Ctrl-C ends"


def _these(target: Target) -> str:
    """The processes that are named."""
    kind = "process" if len(target.pids) == 1 else "processes"
    return f"{kind} {some([*map(str, target.pids)])}"


def _count_traced(plan: Plan) -> str:
    """How many functions, markers and other places are traced."""
    of_markers = {probe.function for probe in plan.probes if probe.source == "marker"}
    of_events = {probe.function for probe in plan.probes if probe.source == "tracepoint"}
    of_waiting = {probe.function for probe in plan.probes if probe.source == "off_cpu"}
    inside = {probe.function for probe in plan.probes if probe.source == "kernel"}
    of_kernel = {probe.function for probe in plan.probes if probe.event}
    of_places = {probe.function for probe in plan.probes if probe.role == "point"}
    of_places -= of_markers | of_events | of_waiting
    of_kernel -= of_events | inside | of_waiting | of_places
    others = map(len, (of_markers, of_places, of_kernel, of_events, inside, of_waiting))
    counts = {
        "function": len(plan.functions) - sum(others),
        "marker": len({plan.functions[number].name for number in of_markers}),
        "place": len(of_places),
        "system call": len(of_kernel),
        "tracepoint": len(of_events),
        "kernel function": len(inside),
    }
    named = (f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n)
    return " and ".join(named)


def traced_files(plan: Plan) -> list[str]:
    """Return the files whose functions are traced; there may be more with switches of stacks."""
    numbers = {function.binary for function in plan.functions}
    return [binary.path for number, binary in enumerate(plan.binaries) if number in numbers]
