"""Reads what probes aggregate in the kernel."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from lbtrace.bpf.self_times import read_self_times
from lbtrace.model import Aggregates, Plan
from lbtrace.tables import merge_aggregated

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject
    from lbtrace.session.stack_files import StackFiles
    from lbtrace.session.stack_names import StackNames

PERIOD = 1.0
"""Seconds between two looks: what an end that comes suddenly costs at most."""


class Aggregation:
    """What the probes of a trace have aggregated, read once in `PERIOD` seconds; with the stacks,
    where they do so by stacks."""

    def __init__(self, loaded: TraceObject, names: StackNames | None) -> None:
        self._loaded = loaded
        self._names = names
        self._next = float("inf")

    def begin(self) -> None:
        """Let it be due for the first time a period from now."""
        self._next = time.monotonic() + PERIOD

    def is_due(self) -> bool:
        """Return whether a period has passed since the last look."""
        return time.monotonic() >= self._next

    def read(self, plan: Plan) -> Aggregates:
        """Return all that was aggregated until now."""
        self._next += PERIOD
        now, selves = time.monotonic_ns(), partial(read_self_times, self._loaded)
        found = merge_aggregated(plan, now, self._loaded.aggregated, selves)
        return self._names.add(found) if self._names else found


def prepare(plan: Plan, loaded: TraceObject, files: StackFiles | None) -> Aggregation:
    """Return what reads what ``plan`` aggregates, where stacks are walked through ``files``."""
    if files is None:
        return Aggregation(loaded, None)
    from lbtrace.session.stack_names import StackNames  # imported here: most answers need no names

    return Aggregation(loaded, StackNames(loaded, files))
