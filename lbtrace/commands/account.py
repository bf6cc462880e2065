"""Counts the calls and threads in a capture while it is written."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.thread_lifetimes import ThreadLifetimes
from lbtrace.calls.visitor import Visitor
from lbtrace.model import Addition, Aggregates, Batch, Losses, Plan, Summary


class Account:
    """Counts what an export of the capture will count, at no cost per event.

    Where functions jump back to their first instructions, an entry need not be a call,
    and where uretprobes are nested ``deep`` the kernel gives up returns: there the
    calls are matched, as where points are recorded.
    """

    def __init__(self, plan: Plan, *, deep: bool = False) -> None:
        self.calls = 0
        self._counted = 0 if plan.aggregates else None
        self._lifetimes = ThreadLifetimes()
        self._plan = plan
        self._matcher: CallMatcher | None = None
        points = any(probe.role == "point" or probe.pair for probe in plan.probes)
        loops_to_entry = any(function.loops_to_entry for function in plan.functions)
        if deep or points or loops_to_entry or plan.may_grow:
            self._matcher = CallMatcher(_bare(plan), _Nobody(), max_depth=0)

    def note(self, batch: Batch | Aggregates | Addition) -> None:
        """Count the calls of a batch, and the threads that made them."""
        if isinstance(batch, Aggregates):
            self._counted = sum(row.count for row in batch.rows)
            return
        if isinstance(batch, Addition):
            self._plan = self._plan.grown(batch)
            if self._matcher is not None:
                self._matcher.grow(_bare(self._plan))
            return
        if self._matcher is not None:
            self._matcher.feed(batch)
            self.calls = self._matcher.calls
            return
        self.calls += batch.entries
        for thread in sorted(batch.threads, key=lambda thread: thread.time):
            self._lifetimes.observe(thread)

    def summary(self, losses: Losses) -> Summary:
        """Return the totals, with what was lost."""
        if self._matcher is not None:
            matcher = self._matcher
            return Summary(
                matcher.calls,
                losses_of(losses, matcher),
                matcher.processes,
                matcher.threads,
                points=matcher.points,
                counted=self._counted,
                counts=self._plan.counts,
                calls_kernel=self._plan.calls_kernel,
            )
        processes, threads = self._lifetimes.processes, self._lifetimes.threads
        return Summary(
            *(self.calls, losses, processes, threads),
            counted=self._counted,
            counts=self._plan.counts,
            calls_kernel=self._plan.calls_kernel,
        )


def losses_of(losses: Losses, matcher: CallMatcher) -> Losses:
    """Return the losses, with the returns that the kernel could not deliver, which only matching
    shows."""
    return replace(losses, return_depth=max(losses.return_depth, matcher.return_depth))


def _bare(plan: Plan) -> Plan:
    """A plan without the values of calls, which are not decoded then."""
    return replace(
        plan, functions=tuple(replace(f, parameters=(), result=None) for f in plan.functions)
    )


class _Nobody(Visitor):
    """A visitor that ignores all calls."""
