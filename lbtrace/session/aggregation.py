"""Reads what probes aggregate in the kernel."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from lbtrace.bpf.unsure_calls import read_unsure
from lbtrace.model import Aggregates, Plan
from lbtrace.tables import merge_aggregated

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject
    from lbtrace.session.stack_files import StackFiles
    from lbtrace.session.stack_names import StackNames

REST = 10
"""A look is due so many times as long after the last as that has taken: where there is much, it is
read less often."""


class Aggregation:
    """What the probes of a trace have aggregated, read once in an ``interval`` of seconds; with the
    stacks, where they do so by stacks."""

    def __init__(self, loaded: TraceObject, interval: float, names: StackNames | None) -> None:
        self._loaded = loaded
        self._interval = interval
        self._names = names
        self._next = float("inf")

    def begin(self) -> None:
        """Let it be due for the first time an interval from now."""
        self._next = time.monotonic() + self._interval

    def is_due(self) -> bool:
        """Return whether an interval has passed since the last look."""
        return time.monotonic() >= self._next

    def read_due(self, plan: Plan) -> Aggregates:
        """Return the same as `read`, which is due again an interval from now."""
        begun = time.monotonic()
        found = self.read(plan)
        now = time.monotonic()
        self._next = max(self._next + self._interval, now + REST * (now - begun))
        return found

    def read(self, plan: Plan) -> Aggregates:
        """Return all that was aggregated until now."""
        now, unsure = time.monotonic_ns(), partial(read_unsure, self._loaded)
        found = merge_aggregated(plan, now, self._loaded.aggregated, unsure)
        return self._names.add(found) if self._names else found


def prepare(loaded: TraceObject, interval: float, files: StackFiles | None) -> Aggregation:
    """Return what reads what a plan aggregates, where stacks are walked through ``files``."""
    if files is None:
        return Aggregation(loaded, interval, None)
    from lbtrace.session.stack_names import StackNames  # imported here: most answers need no names

    return Aggregation(loaded, interval, StackNames(loaded, files))
