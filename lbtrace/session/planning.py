"""Makes the plan that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import interpreter
from lbtrace.errors import BinaryError, LbtraceError, NoMatchError, UsageError, option
from lbtrace.model import Plan, Target
from lbtrace.model.choices import Choices
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.merge import distinct
from lbtrace.plan.value_selection import parse_chosen
from lbtrace.probes import PROBES
from lbtrace.session.request import Prepared, Request
from lbtrace.system.cgroups import find_id
from lbtrace.system.file import File
from lbtrace.system.process import check_pid
from lbtrace.targets import seccomp, watchers
from lbtrace.targets.abilities import find_abilities
from lbtrace.targets.command import find_command
from lbtrace.targets.images import OpenedImages, find_mapped_files, open_images, warn_32_bit
from lbtrace.targets.patched_code import find_breakpoints, find_patched
from lbtrace.targets.reach import Reach, find_reach

if TYPE_CHECKING:
    from lbtrace.session.found_libraries import Found


QUOTED = "'*'"
"""All, as a shell passes it on."""


def plan(request: Request) -> Prepared:
    """Plan what is asked for. Raises `LbtraceError`: of the target, the files, the patterns and
    the expressions."""
    request.check()
    if request.libcalls:
        from lbtrace.session import called_functions  # imported here because few ask for them

        found = called_functions.find(request)
        return _plan(found.request, found)
    if request.takes_own and (request.target.command or request.target.pids):
        from lbtrace.session import called_functions  # imported here, as above

        if instead := called_functions.find_instead(request):
            return _plan(instead.request, instead)
    if len(request.target.pids) > 1 and request.names_code:
        from lbtrace.session import found_libraries  # imported here because few trace several

        # What the program of one has, a library may have that another loads.
        if in_each := found_libraries.find(request):
            return _plan(in_each.request, in_each)
    try:
        return _plan(request)
    except (BinaryError, NoMatchError) as error:
        if (request.target.command or request.target.pids) and request.names_code:
            from lbtrace.session import found_libraries  # imported here: most have what is named

            elsewhere = None
            with suppress(LbtraceError):  # what is wrong is said already
                elsewhere = found_libraries.find(request)
            if elsewhere:
                return _plan(elsewhere.request, elsewhere)
        if request.target.command and not request.binaries and request.names_code:
            from lbtrace.session.started_programs import advise  # imported here: all has failed

            advise(error, request, lambda path: _plan(replace(request, binaries=(path,))))
        if request.takes_own and isinstance(error, BinaryError):
            error.advise(f"{error.hint}; or trace its system calls: {option('syscall', QUOTED)}")
        raise


def _plan(request: Request, found: Found | None = None) -> Prepared:
    """The plan; of what was ``found`` in other files than those of the request, if so."""
    target = request.target
    opened = OpenedImages(found.images, found.notes) if found else _open(request)
    around = find_mapped_files(target)
    in_files = request.binaries and around is not None and not around.paths
    if in_files or "syscall" in request.named:
        opened.notes += warn_32_bit(target)
    able = find_abilities(target, around)
    grows = request.seeks_files and able.forks
    traced = _add_marked(request, opened, grows) if request.seeks_files else opened
    files = tuple(image.file for image in distinct((*traced.images, *traced.marked)))
    reach = find_reach(target, request.mode, able)
    hooks = request.returns == "uretprobe"
    watcher = watchers.find_watcher(target, around) if hooks else ""
    running = find_patched(files, target, reach)
    selection = replace(
        _select(request, running.patched),
        hazard=seccomp.hazard() if hooks else "",
        watched=watchers.object_to_uretprobes(watcher),
        breakpoints=_breakpoints(files, target.pids),
        mapped_files=around,
        other_processes=reach.other_processes,
        altstack_checked=reach.guarded,
        single=reach.single,
        any_program=reach.any_program,
        marked=traced.marked,
        growth="later" if grows else "",
        loads_later=bool(target.pids or target.command) and able.forks and not request.binaries,
    )
    made = make_plan(traced.images, selection)
    if asked := selection.request:
        made = replace(made, by=asked.grouped, columns=asked.columns)
    # Those of libraries that nobody asked for: `lbtrace.plan.made_stacks`.
    files += tuple(Image.open(binary.path).file for binary in made.binaries[len(files) :])
    _check_reach(made, target)
    later = request if made.may_grow else None
    rest = (reach, tuple(traced.notes), later, running.exchanging, running.patched)
    return Prepared(made, target, files, *rest)


def _open(request: Request) -> OpenedImages:
    """The files to trace, besides those with markers that are to be found."""
    target, names = request.target, request.binaries
    if target.cgroup:
        find_id(target.cgroup)  # there is one, or an error
    if not request.needs_files:
        for pid in target.pids:
            check_pid(pid)
        if target.command:
            find_command(*target.command)
        return OpenedImages([], [])
    if target.command and request.seeks_files and not request.names_code:
        # A script has no markers, but what runs it may load files that have.
        names = (interpreter(find_command(*target.command)),)
    return open_images(target, names)


def _add_marked(request: Request, opened: OpenedImages, grows: bool) -> OpenedImages:
    """``opened`` with the files that have wanted markers, and with those by which an error says
    what there is instead: all with markers, or where a trace that ``grows`` waits for those of
    other providers, those of the same one."""
    from lbtrace.session import marked_files  # imported here: few ask for markers

    found = marked_files.open_marked(request.target, opened.images)
    notes = [*opened.notes, *found.notes]
    images = [*opened.images, *found.images]
    chosen = marked_files.having(images, request.named["usdt"], other_providers=not grows)
    if request.names_code:
        return OpenedImages(opened.images, notes, [each for each in chosen if each in found.images])
    return OpenedImages(chosen or images, notes)


def plan_mapped(request: Request, image: Image, pid: int, reach: Reach) -> Plan | None:
    """Plan the markers of a file that process ``pid`` has mapped while a trace runs whose probes
    ``reach`` that process; None where none is asked for. Raises `LbtraceError`."""
    from lbtrace.plan.markers import is_named  # imported here, as above

    wanted = request.named["usdt"]
    if not is_named(image, wanted):
        return None
    patched = find_patched((image.file,), Target((pid,)), reach).patched
    selection = replace(
        _select(request, patched),
        **{"patterns": (), "named": {"usdt": wanted}, "within": (), "growth": "addition"},
        inlined=False,
        locals=False,
        off_cpu=0,
        breakpoints=_breakpoints((image.file,), (pid,)),
    )
    return make_plan(image, selection)


def _select(request: Request, patched: Mapping[tuple[int, int], tuple[int, ...]]) -> Selection:
    """What is asked for, without what is known of the target."""
    chosen = {name: getattr(request, name) for name in Choices.__struct_fields__}
    return Selection(
        **chosen,
        patched=patched,
        request=parse_chosen(request, request.where),
    )


def _breakpoints(
    files: Sequence[File], pids: Sequence[int]
) -> Mapping[tuple[int, int], tuple[int, ...]]:
    """Those of a debugger: see `lbtrace.plan.selection.Selection`."""
    return find_breakpoints(files, [pid for pid in pids if watchers.tracer_of(pid)])


def _check_reach(plan: Plan, target: Target) -> None:
    """That probes which all processes hit are not traced in all of them."""
    if target.pids or target.command or target.cgroup or target.every:
        return
    names = {
        probe.source.removesuffix(" return")
        for probe in plan.probes
        if PROBES[probe.source].everywhere
    }
    if names:
        raise UsageError(
            f"probes of {', '.join(sorted(names))} are hit by every process of the machine",
            f"name what to trace: {option('pid')}, a command, {option('cgroup')}, or"
            f" {option('all')}",
        )
