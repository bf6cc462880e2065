"""Points that the probes of a function's entry and exits would leave outside of its call."""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.model import Plan, Probe


def find_crossed(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the addresses of a plan's points, by binary, if some lie between where a function
    begins and where the probe of its entry is, or between the probe of an exit and the end. A probe
    is moved there because the kernel emulates the instruction."""
    points: dict[int, set[int]] = {}
    for probe in plan.probes:
        if _is_point(probe):
            points.setdefault(probe.binary, set()).add(probe.site.address)
    if not points or not any(_crosses(plan, points)):
        return {}
    return {binary: tuple(sorted(found)) for binary, found in points.items()}


def _crosses(plan: Plan, points: dict[int, set[int]]) -> Iterator[bool]:
    for probe in plan.probes:
        if _is_point(probe) or probe.role not in ("opens", "closes") or probe.function < 0:
            continue
        function, at = plan.functions[probe.function], probe.site.address
        low, high = function.address, at
        if probe.role == "closes":
            low, high = at + 1, function.address + function.size
            if probe.source == "uretprobe" or probe.site.displaced.startswith("ret"):
                continue
        yield any(low <= point < high for point in points.get(probe.binary, ()))


def _is_point(probe: Probe) -> bool:
    return probe.role == "point" or probe.source == "marker"
