"""From a request to a plan, for the command line and `lbtrace.trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.model import Target
from lbtrace.session import plan_cache
from lbtrace.session.request import Prepared, Request
from lbtrace.system.lookups import recording
from lbtrace.targets.exchanged_stacks import find_exchanging

if TYPE_CHECKING:
    from lbtrace.plan.return_strategy import Returns
    from lbtrace.probes import Mode


def prepare(
    target: Target,
    binaries: Sequence[str],
    patterns: Sequence[str],
    *,
    args: int | None = None,
    arg: Sequence[str] = (),
    where: str = "",
    depth: int = 0,
    strings: int = 64,
    returns: Returns = "auto",
    force: bool = False,
    mode: Mode | None = None,
    action: str = "send",
    sources: Sequence[str] = (),
    cache: bool = True,
    lines: Sequence[str] = (),
    places: Sequence[str] = (),
    locals: bool = False,
    markers: Sequence[str] = (),
    within: Sequence[str] = (),
    providers: Sequence[str] = (),
    inlined: bool = False,
    unsafe: bool = False,
) -> Prepared:
    """Plan to trace what ``patterns`` and ``sources`` select of ``binaries`` in ``target``.

    The options are those of `lbtrace.trace`; ``mode`` is how probes are to be attached, None
    for the best way that the kernel has. With ``cache`` the plan of a former time is taken if
    nothing that it depends on has changed. Nothing is attached, nothing is started. Raises
    `LbtraceError`: of the target, the files, the patterns and the expressions.
    """
    request = Request(
        *(target, tuple(binaries), tuple(patterns), args, tuple(arg), where, depth, strings),
        *(returns, force, mode, action, tuple(sources), tuple(lines), tuple(places), locals),
        markers=tuple(markers),
        within=tuple(within),
        providers=tuple(providers),
        inlined=inlined,
        unsafe=unsafe,
    )
    place = plan_cache.place_of(request) if cache else None
    if place is not None and (kept := place.load()) is not None:
        return _doubted(kept)
    from lbtrace.session.planning import plan  # imported here: plans that are kept do without

    with recording() as lookups:
        planned = plan(request)
    if place is not None:
        place.store(planned, lookups)
    return _doubted(planned.prepared)


def _doubted(prepared: Prepared) -> Prepared:
    """``prepared``, with what processes that run now make doubtful of a trace of all of them."""
    plan, target = prepared.plan, prepared.target
    if target.pid or target.command or not any(probe.role == "closes" for probe in plan.probes):
        return prepared
    path = find_exchanging(prepared.files)
    if not path:
        return prepared
    note = (
        f"{path} exchanges what is on stacks, which is not watched in every process: calls that"
        " wait there may be shown inside of others, and end open"
    )
    plan = replace(plan, unseen_switches="exchanges", notes=(*plan.notes, note))
    return replace(prepared, plan=plan)
