"""The plan of a capture, with the additions that its trace made to it."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import Addition, Binary, Frame, Function, Plan, Probe

MOST_PADDED = 1 << 20
"""Binaries, functions and probes that may be missing before an addition: more than any trace adds,
to bound the cost of damaged files."""


class Growing:
    """A plan, to which additions are made one after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._binaries = list(plan.binaries)
        self._functions = list(plan.functions)
        self._probes = list(plan.probes)
        self._notes = list(plan.notes)
        self._frames = list(plan.frames)

    def add(self, addition: Addition, padding: Probe | None = None) -> bool:
        """Make an addition; false, and nothing happens, where one before it is missing. With
        ``padding`` that stands for each probe that is missing then."""
        counts = len(self._binaries), len(self._functions), len(self._probes), len(self._frames)
        after = (*addition.after, addition.first_frame if addition.frames else counts[3])
        missing = [at - count for at, count in zip(after, counts, strict=True)]
        if any(n < 0 or n > MOST_PADDED for n in missing) or (any(missing) and padding is None):
            return False
        if padding is not None:
            self._binaries += [Binary("")] * missing[0]
            self._functions += [Function("", 0, 0, 0)] * missing[1]
            self._probes += [padding] * missing[2]
            self._frames += [Frame("", 0)] * missing[3]
        self._binaries += addition.binaries
        self._functions += addition.functions
        self._probes += addition.probes
        self._notes += addition.notes
        self._frames += addition.frames
        return True

    def plan(self) -> Plan:
        """Return the plan with all additions."""
        return replace(
            self._plan,
            binaries=tuple(self._binaries),
            functions=tuple(self._functions),
            probes=tuple(self._probes),
            notes=tuple(self._notes),
            frames=tuple(self._frames),
        )
