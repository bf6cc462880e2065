"""What exits that the kernel single-steps have cost a traced program, for the summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from resource import RUSAGE_CHILDREN, getrusage
from struct import Struct
from typing import NamedTuple, TypeVar

from lbtrace.model import Batch, Plan, Target
from lbtrace.model.wire import EVENT_SIZE
from lbtrace.system.procfs import read_text

STRIDE = 61
"""One event of so many is looked at: a prime, as entries and returns alternate."""

MOST = 100e-6
"""Seconds that a single step takes at most, by which most traces need no measurement."""

_PROBE = Struct("<24xI")
"""The number of an event's probe: `lbtrace.model.wire.EVENT`."""

_T = TypeVar("_T")


def _stepped_exits(plan: Plan) -> frozenset[int]:
    return frozenset(
        number
        for number, probe in enumerate(plan.probes)
        if probe.role in ("closes", "tail") and probe.source == "uprobe" and not probe.site.emulated
    )


class StepCost(NamedTuple):
    """Of the processor time ``spent`` by a program, that of so many ``hits`` at exits, each of
    which took a ``step``: seconds."""

    spent: float
    hits: int
    step: float


class SingleSteps:
    """Counts single-stepped exits in the batches that it passes on, by samples, and what processor
    time the processes of ``target`` have taken before."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self._exits = _stepped_exits(plan)
        self._target = target
        self._before = _processor_time(*target.pids) if target.pids else 0.0
        self._next = self._found = 0

    def watch(self, batches: Iterator[_T]) -> Iterator[_T]:
        """Yield ``batches``, and count."""
        for batch in batches:
            if isinstance(batch, Batch):
                self._note(batch.events)
            yield batch

    @property
    def hits(self) -> int:
        """How many single-stepped exits there were, about."""
        return self._found * STRIDE

    def _note(self, events: bytes | memoryview) -> None:
        count = len(events) // EVENT_SIZE
        for number in range(self._next, count, STRIDE):
            self._found += _PROBE.unpack_from(events, number * EVENT_SIZE)[0] in self._exits
        self._next = (self._next - count) % STRIDE

    def measure(self, *pids: int) -> StepCost | None:
        """Return what single steps have cost a trace whose first processes were ``pids``, if that
        is more than half of their processor time: measured on this machine, now."""
        spent = _processor_time(*pids) - self._before
        if not 0 < spent < 2 * self.hits * MOST:
            return None
        from lbtrace.bpf._libbpf import lib  # imported here because few traces come here

        step = lib.lbt_time_probe(0) * 1e-9
        return StepCost(spent, self.hits, step) if self.hits * step > spent / 2 else None


def time_hook() -> float:
    """Return how many seconds a uretprobe takes of a return on this machine; 0 if unknown."""
    from lbtrace.bpf._libbpf import lib  # imported here, as above

    return float(lib.lbt_time_probe(1) * 1e-9)


def _processor_time(*pids: int) -> float:
    """What processes and the children that they have waited for have taken, in seconds; of a
    command that has ended, what was waited for here. See proc_pid_stat(5)."""
    ticks = 0
    for pid in pids:
        try:
            text = read_text(f"/proc/{pid}/stat")
        except OSError:
            used = getrusage(RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime
        ticks += sum(map(int, text.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
