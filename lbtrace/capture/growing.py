"""The plan of a capture, with the additions that its trace made to it."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import Addition, Plan


class Growing:
    """A plan, to which additions are made one after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._binaries = list(plan.binaries)
        self._functions = list(plan.functions)
        self._probes = list(plan.probes)
        self._notes = list(plan.notes)
        self._frames = list(plan.frames)

    def add(self, addition: Addition) -> bool:
        """Make an addition; false, and nothing happens, where one before it is missing."""
        counts = len(self._binaries), len(self._functions), len(self._probes), len(self._frames)
        after = (*addition.after, addition.first_frame if addition.frames else counts[3])
        if after != counts:
            return False
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
