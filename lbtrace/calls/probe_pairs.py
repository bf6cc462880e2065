"""Which probes open the calls that others close."""

from __future__ import annotations

from lbtrace.model import Plan
from lbtrace.probes import CLOSING, PROBES, hooked_pairs


class ProbePairs:
    """The pairs of a plan's probes."""

    def __init__(self, plan: Plan) -> None:
        self._probes = plan.probes
        self._openings = {p.function: n for n, p in enumerate(plan.probes) if p.role == "opens"}
        hooked = hooked_pairs(plan.probes, PROBES)
        self._hooked = {*hooked, *hooked.values()}
        self._returning = {p.function for p in plan.probes if p.role in CLOSING}
        self._returning |= {
            n for n, f in enumerate(plan.functions) if f.returns.startswith("sites")
        }

    def is_hooked(self, number: int) -> bool:
        """Return whether a uretprobe sees the returns of a probe's calls."""
        return number in self._hooked

    def sees_returns(self, number: int) -> bool:
        """Return whether the returns of the probe's function are watched."""
        return self._probes[number].function in self._returning

    def entry_of(self, number: int) -> int:
        """Return the probe that opens the calls which this one closes, -1 if it closes none."""
        probe = self._probes[number]
        if probe.role not in CLOSING:
            return -1
        return number - 1 if number in self._hooked else self._openings.get(probe.function, number)

    def opens(self, number: int) -> bool:
        """Return whether a probe opens calls."""
        return 0 <= number < len(self._probes) and self._probes[number].role == "opens"

    def returns(self, number: int) -> bool:
        """Return whether a probe ends calls by their return."""
        return self._probes[number].role == "closes"

    def jumps(self, number: int) -> bool:
        """Return whether a probe ends calls by a jump to another function."""
        return self._probes[number].role == "tail"

    def parts_of(self, number: int) -> range:
        """Return the probes that read the values of the same point, empty where it is one."""
        first, end = number, number + 1
        while first and self._probes[first].role == "more values":
            first -= 1
        while end < len(self._probes) and self._probes[end].role == "more values":
            end += 1
        return range(first, end) if end - first > 1 else range(0)

    def has_frames(self, number: int) -> bool:
        """Return whether calls are paired by their frames."""
        source = PROBES.get(self._probes[number].source)
        return source is not None and source.pairing == "frame"
