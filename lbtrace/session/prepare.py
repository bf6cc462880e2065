"""From a request to a plan, for the command line and `lbtrace.trace`."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.session import plan_cache
from lbtrace.session.request import Prepared, Request
from lbtrace.system.lookups import recording


def prepare(request: Request, *, cache: bool = True) -> Prepared:
    """Plan what is asked for.

    With ``cache`` the plan of a former time is taken if nothing that it depends on has changed.
    Nothing is attached, nothing is started. Raises `LbtraceError`: of the target, the files, the
    patterns and the expressions.
    """
    place = plan_cache.place_of(request) if cache else None
    if place is not None and (kept := place.load()) is not None:
        return _mark_unreliable(kept)
    from lbtrace.session.planning import plan  # imported here: plans that are kept do without

    with recording() as lookups:
        prepared = plan(request)
    if place is not None:
        place.store(prepared, lookups)
    return _mark_unreliable(prepared)


def _mark_unreliable(prepared: Prepared) -> Prepared:
    """``prepared``, with what processes that run now make unreliable of a trace of all of them."""
    plan, target = prepared.plan, prepared.target
    if target.pids or target.command or not any(probe.role == "closes" for probe in plan.probes):
        return prepared
    if not prepared.exchanging:
        return prepared
    note = (
        f"{prepared.exchanging} exchanges what is on stacks, which is not watched in every"
        " process: calls that wait there may be shown inside of others, and end open"
    )
    plan = replace(plan, unseen_switches="exchanges", notes=(*plan.notes, note))
    return replace(prepared, plan=plan)
