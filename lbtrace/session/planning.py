"""Makes the plan that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.abi.locations import Detail
from lbtrace.errors import UsageError, option
from lbtrace.model import Plan, Target
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.value_selection import parse
from lbtrace.probes import PROBES
from lbtrace.session.request import Prepared, Request
from lbtrace.targets import watchers
from lbtrace.targets.abilities import find_abilities
from lbtrace.targets.images import beside, open_images
from lbtrace.targets.long_nops import Circumstances, LongNops
from lbtrace.targets.patched_code import find_patched
from lbtrace.targets.reach import find_reach

if TYPE_CHECKING:
    from lbtrace.providers import Definitions


class Planned(Struct, frozen=True):
    """A plan with what it rests on that may change while its files stay as they are: the code that
    is ``patched`` in memory (`lbtrace.targets.patched_code.find_patched`)."""

    prepared: Prepared
    patched: Mapping[tuple[int, int], tuple[int, ...]]


def plan(request: Request) -> Planned:
    """Plan what is asked for. Raises `LbtraceError`: of the target, the files, the patterns and
    the expressions."""
    target = request.target
    traced = open_images(target, request.binaries)
    if request.markers and not (request.binaries or request.names_code):
        from lbtrace.session.marked_files import open_marked  # imported here: few ask for markers

        traced = open_marked(target, request.markers, traced)
    files = tuple(image.file for image in traced.images)
    around = beside(target)
    able = find_abilities(target, around)
    reach = find_reach(target, request.mode, able)
    watcher = watchers.find_watcher(target, around)
    hazard = watchers.hazard_of(watcher)
    patched = find_patched(files, target, reach)
    selection = Selection(
        request.patterns,
        request.args,
        request.returns,
        request.force,
        hazard,
        beside=around,
        strangers=reach.strangers,
        altstack_checked=reach.guarded,
        patched=patched,
        detail=Detail(request.depth, request.strings),
        request=parse(request.arg, request.where),
        action=request.action,
        sources=request.sources,
        lines=request.lines,
        places=request.places,
        locals=request.locals,
        markers=request.markers,
        definitions=_definitions(request),
        ask_nop=LongNops(lambda: Circumstances(around, able, reach, watcher)),
        within=request.within,
        inlined=request.inlined,
    )
    made = make_plan(traced.images, selection)
    _check_reach(made, target)
    return Planned(Prepared(made, target, files, reach, tuple(traced.notes)), patched)


def _check_reach(plan: Plan, target: Target) -> None:
    """That probes which all processes hit are not traced in all of them."""
    if target.pid or target.command:
        return
    names = {probe.source for probe in plan.probes if PROBES[probe.source].everywhere}
    if names:
        raise UsageError(
            f"probes of {', '.join(sorted(names))} are hit by every process of the machine",
            f"name what to trace: {option('pid')}, or a command",
        )


def _definitions(request: Request) -> Definitions | None:
    """What the user's own files say of markers."""
    if not request.providers:
        return None
    from lbtrace.session.marked_files import open_definitions  # imported here: few have some

    return open_definitions(request.providers)
