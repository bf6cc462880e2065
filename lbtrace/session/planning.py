"""Makes the plan that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi.locations import Detail
from lbtrace.elf.loaded_files import interpreter
from lbtrace.errors import UsageError, option
from lbtrace.model import Plan, Target
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.value_selection import parse
from lbtrace.probes import PROBES
from lbtrace.session.request import Prepared, Request
from lbtrace.targets import watchers
from lbtrace.targets.abilities import find_abilities
from lbtrace.targets.command import find_command
from lbtrace.targets.images import OpenedImages, beside, open_images
from lbtrace.targets.long_nops import Circumstances, LongNops
from lbtrace.targets.patched_code import find_patched
from lbtrace.targets.reach import Reach, find_reach

if TYPE_CHECKING:
    from lbtrace.elf.image import Image
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
    traced = _open(request)
    files = tuple(image.file for image in traced.images)
    around = beside(target)
    able = find_abilities(target, around)
    reach = find_reach(target, request.mode, able)
    watcher = watchers.find_watcher(target, around)
    hazard = watchers.hazard_of(watcher)
    patched = find_patched(files, target, reach)
    ask_nop = LongNops(lambda: Circumstances(around, able, reach, watcher))
    selection = replace(
        _select(request, patched, ask_nop),
        hazard=hazard,
        beside=around,
        strangers=reach.strangers,
        altstack_checked=reach.guarded,
    )
    if request.seeks_files and able.forks and request.action == "send":
        from lbtrace.plan.waiting_markers import plan_waiting  # imported here, as above

        made = plan_waiting(traced.images, selection)
    else:
        made = make_plan(traced.images, selection)
    _check_reach(made, target)
    later = request if made.may_grow else None
    return Planned(Prepared(made, target, files, reach, tuple(traced.notes), later), patched)


def _open(request: Request) -> OpenedImages:
    """The files to trace."""
    target = request.target
    if not request.seeks_files:
        return open_images(target, request.binaries)
    from lbtrace.session.marked_files import open_marked  # imported here: few ask for markers

    # A script has no markers, but what runs it may load files that have.
    program = [interpreter(find_command(target.command[0]))] if target.command else []
    return open_marked(target, request.markers, open_images(target, program))


def plan_mapped(request: Request, image: Image, pid: int, reach: Reach) -> Plan | None:
    """Plan the markers of a file that process ``pid`` has mapped while a trace runs whose probes
    ``reach`` that process; None where none is asked for. Raises `LbtraceError`."""
    from lbtrace.plan.waiting_markers import named_markers  # imported here, as above

    names = named_markers(image, request.markers)
    if not names:
        return None

    def find() -> Circumstances:
        target = Target(pid=pid, follow=request.target.follow)
        around = beside(target)
        able = find_abilities(target, around)
        return Circumstances(around, able, reach, watchers.find_watcher(target, around))

    patched = find_patched((image.file,), Target(pid=pid), reach)
    selection = _select(request, patched, LongNops(find))
    return make_plan(image, replace(selection, markers=tuple(names)))


def _select(
    request: Request, patched: Mapping[tuple[int, int], tuple[int, ...]], ask_nop: LongNops
) -> Selection:
    """What is asked for, without what is known of the target."""
    return Selection(
        request.patterns,
        request.args,
        request.returns,
        request.force,
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
        ask_nop=ask_nop,
        within=request.within,
        inlined=request.inlined,
    )


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
