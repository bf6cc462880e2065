"""Switches of stacks in files that are not traced, but run in the traced processes.

A library of fibers switches the stacks on which traced functions run. Where that is not seen,
calls of one fiber seem to be made by another's, and to be left by an exception when that one goes
on. So its switches are reported as those of traced files are (`lbtrace.plan.stack_switches`).
Asked are files that are known by names, or by their code (`lbtrace.plan.self_switching`). What sets
up stacks by calls that pass no stub (`lbtrace.plan.hidden_calls`), or for signals in files that
nobody traces (`lbtrace.plan.signal_coroutines`), is seen in the C library itself. Where every
process is traced, most of which may not run the traced files, there is no probe, and the plan says
which switches are not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache, partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from lbtrace.elf import plt, symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Binary, Plan, Probe
from lbtrace.plan import (
    context_switches,
    hidden_calls,
    self_switching,
    signal_coroutines,
    stack_exchanges,
    stack_switches,
    unwatched_switches,
)
from lbtrace.plan.code_context import Surroundings
from lbtrace.plan.known_names import FIBERS, SYSTEM
from lbtrace.plan.processes import identity_of, processes
from lbtrace.plan.selection import Selection
from lbtrace.plan.signal_coroutines import SETTER
from lbtrace.plan.unwatched_switches import EARLIER, RARELY, SPLIT, doubt
from lbtrace.system.lookups import remembering

MOST = 8
"""Files of which switches are reported."""

ROLES = frozenset({"switch", "switch back", "stack"})

CONTEXTS = frozenset(stack_switches.SWITCHES)
"""What switches stacks by the C library."""

JUMPS = frozenset(stack_switches.JUMPS)
"""What may switch between stacks that contexts were set up for, as QEMU does."""

MAKER = "makecontext"
_OWN = Wanted(CONTEXTS | JUMPS)
_LOADING = Wanted(("dlopen", "dlmopen", "dlsym"))

PlanProbes: TypeAlias = Callable[[Image], Iterator[Probe]]
"""What plans the probes of a file."""

ANY = "switches stacks, which is not watched in every process"
MAY = "may switch stacks, which is not watched in every process"
UNWATCHED = "calls {} where no probe is"
EXCHANGES = "exchanges what is on stacks, which is not watched"


class _File(NamedTuple):
    """A file of a traced process, and the ``names`` of what switches stacks that it uses or
    offers; or it does so by its ``own`` code, or by a ``jump`` to stacks for signals."""

    path: str
    names: frozenset[str]
    traced: bool
    own: bool = False
    jump: str = ""

    @property
    def switches(self) -> bool:
        """Whether it has more than jumps, which need not lead to another stack."""
        return self.own or bool(self.names - JUMPS - stack_exchanges.LOADERS)

    @property
    def makes(self) -> bool:
        """Whether it sets up stacks by the C library."""
        return MAKER in self.names

    @property
    def signals(self) -> bool:
        """Whether it may set up stacks for coroutines as for signals, which only the C library
        shows."""
        if not self.jump:
            return False
        return _hides(SETTER, self.path) or not (self.traced or self.switches)

    @property
    def exchanges(self) -> bool:
        """Whether it exchanges what is on stacks."""
        return bool(self.names & stack_exchanges.OFFERS)

    @property
    def loads_exchanges(self) -> bool:
        """Whether it may load a file that does."""
        return bool(self.names & stack_exchanges.LOADERS)

    @property
    def mixes(self) -> bool:
        """Whether it may switch stacks by jumps."""
        return bool(self.names & JUMPS) and self.makes


def add(plan: Plan, images: Sequence[Image], selection: Selection) -> Plan:
    """Return ``plan``, which traces ``images``, with probes on the switches of what runs beside
    them in the traced process, or with what it does not see of them."""
    if all(binary.go for binary in plan.binaries):  # its calls belong to goroutines
        return plan
    plan = _see_others(plan, images, selection)
    return unwatched_switches.add(plan, images, earlier=bool(selection.earlier))


def _see_others(plan: Plan, images: Sequence[Image], selection: Selection) -> Plan:
    """``plan`` with probes on the switches of what runs beside ``images``, or with what it does not
    see of them."""
    files = _switching(images, selection)
    program = selection.beside.program if selection.beside else ""
    if not files and not program:
        return plan
    contexts = any(file.names & CONTEXTS for file in files)
    foreign = [file.path for file in files if not file.traced and file.switches]
    hidden = [file.path for file in files if file.makes and _hides(MAKER, file.path)]
    signalling = [file.path for file in files if file.signals]
    if selection.beside is None:  # `lbtrace.session.prepare` looks for what exchanges stacks
        if unwatched := foreign or hidden:
            return doubt(plan, "any", f"{unwatched[0]} {ANY}")
        if signalling:
            return doubt(plan, "any", f"{signalling[0]} {MAY}")
        return doubt(plan, "earlier", EARLIER) if contexts else plan
    plan = _extended(plan, ((path, _probes) for path in foreign[:MOST]))
    own = [file.path for file in files if file.own]
    plan = unwatched_switches.add(plan, (), foreign, own, earlier=bool(selection.earlier))
    if hidden:
        plan = _see_calls(plan, images, selection, hidden[0], MAKER)
    if signalling:
        plan = _see_calls(plan, images, selection, signalling[0], SETTER)
        if selection.earlier and not plan.unseen_switches:
            plan = doubt(plan, "earlier", EARLIER)
    if exchanging := _exchanging(files, program):
        before = len(plan.probes)
        plan = _extended(plan, ((path, stack_exchanges.plan_probes) for path in exchanging))
        if len(plan.probes) == before:
            plan = doubt(plan, "exchanges", f"{exchanging[0]} {EXCHANGES}")
    if plan.unseen_switches or not contexts or not selection.earlier:
        return plan
    seen = len(plan.probes)
    if selection.earlier == "one":
        offering = _offering(images, selection)
        plan = _extended(plan, ((path, context_switches.plan_probes) for path in offering))
    unseen = len(plan.probes) == seen or any(file.mixes for file in files)
    return doubt(plan, "earlier", EARLIER) if unseen else plan


def _see_calls(
    plan: Plan, images: Sequence[Image], selection: Selection, path: str, name: str
) -> Plan:
    """``plan`` with a probe on ``name`` in the C library, which sets up stacks; calls of the file
    at ``path`` are not seen elsewhere."""
    if selection.earlier == "any":
        return doubt(plan, "any", f"{path} {ANY if name == MAKER else MAY}")
    role, _ = stack_switches.SETTERS[name]
    offering = [*_offering(images, selection)]
    probes = partial(_probes, roles=frozenset({role}))
    plan = _extended(plan, ((library, probes) for library in offering))
    if any(p.role == role and plan.binaries[p.binary].path in offering for p in plan.probes):
        return plan
    return doubt(plan, "any", f"{path} {UNWATCHED.format(name)}")


def _exchanging(files: Iterable[_File], program: str) -> list[str]:
    """The files that exchange what is on stacks, or those that may be loaded and do. ``program`` is
    the path of the program, with its links."""
    found = [file.path for file in files if file.exchanges]
    loading = [file.path for file in files if file.loads_exchanges]
    if loading or os.path.basename(program).startswith("python"):
        loading.append(program)
    return found or (stack_exchanges.find_loadable(loading) if loading else [])


def use_contexts(images: Sequence[Image], selection: Selection) -> bool:
    """Return whether the traced processes, as far as they are known, switch stacks by the C
    library's functions."""
    return any(file.names & CONTEXTS for file in _switching(images, selection))


def find_maker(images: Sequence[Image], selection: Selection) -> str:
    """Return a file of the traced processes, as far as they are known, that sets up stacks by the
    C library, or ``""``."""
    return next((file.path for file in _switching(images, selection) if file.makes), "")


def may_load_more(images: Sequence[Image], selection: Selection) -> bool:
    """Return whether the traced processes, as far as they are known, load files or ask for
    functions by name, which may switch stacks then."""
    return any(_loads(path, identity_of(path)) for path in _paths(images, selection))


@remembering(512)
def _loads(path: str, _identity: object) -> bool:
    try:
        dynamic = Dynamic(Image.open(path))
    except BinaryError:
        return False
    return not SYSTEM.match(dynamic.soname) and any(dynamic.imports.wanted(_LOADING))


def _extended(plan: Plan, files: Iterable[tuple[str, PlanProbes]]) -> Plan:
    """``plan`` with probes in ``files``, and what plans those of each."""
    binaries, probes = list(plan.binaries), list(plan.probes)
    numbers = {binary.path: number for number, binary in enumerate(binaries)}
    for path, plan_probes in files:
        try:
            image = Image.open(path)
        except BinaryError:  # replaced since
            continue
        number = numbers.get(path, len(binaries))
        planned = {(p.binary, p.site.address, p.role) for p in probes}
        found = [
            replace(probe, binary=number)
            for probe in plan_probes(image)
            if (number, probe.site.address, probe.role) not in planned
        ]
        probes += found
        if found and number == len(binaries):
            binaries.append(Binary(image.path, image.build_id, image.machine))
    return replace(plan, binaries=tuple(binaries), probes=tuple(probes))


def _switching(images: Sequence[Image], selection: Selection) -> list[_File]:
    """Return the files of the traced processes that switch stacks."""
    traced = {image.file.identity: image for image in images}
    files: dict[str, _File] = {}
    for path in _paths(images, selection):
        identity = identity_of(path)
        image = traced.get(identity) if identity else None
        names = _used_names(path, identity)
        if not names and image is not None:
            names = _own_names(image)
        jump = _jump(path, identity) if names & JUMPS else ""
        files[path] = _File(path, names, image is not None, jump=jump)
    asked = [path for path, file in files.items() if not (file.traced or file.names - JUMPS)]
    for path in self_switching.find_files(asked):
        files[path] = files[path]._replace(own=True)
    return [file for file in files.values() if file.names - JUMPS or file.own or file.jump]


def _paths(images: Sequence[Image], selection: Selection) -> Iterable[str]:
    """The files of the traced processes, as far as they are known."""
    running = processes(images, selection.beside)
    return dict.fromkeys(path for each in running for path in each.paths)


def _offering(images: Sequence[Image], selection: Selection) -> Iterator[str]:
    """Yield the C library of the traced process, or the program that has a copy of it."""
    for image in images:
        if _own_names(image):
            yield image.path
    for path in _paths(images, selection):
        try:
            dynamic = Dynamic(Image.open(path))
        except BinaryError:
            continue
        if SYSTEM.match(dynamic.soname) and CONTEXTS & dynamic.exports.wanted(_OWN):
            yield path


def _own_names(image: Image) -> frozenset[str]:
    """What a program without a loader has of the C library to switch stacks."""
    if not image.is_program or Dynamic(image).interpreter:
        return frozenset()
    try:
        own = image.once(symbols.read).functions.wanted(_OWN)
    except BinaryError:
        return frozenset()
    return (CONTEXTS | JUMPS) & {name for f in own for name in (f.name, *f.aliases)}


@remembering(512)
def _used_names(path: str, _identity: object) -> frozenset[str]:
    """The names of a library of fibers, or of what switches stacks, that a file imports or
    offers; none of libraries of the system."""
    try:
        image = Image.open(path)
        dynamic = image.once(Dynamic)
    except BinaryError:
        return frozenset()
    if SYSTEM.match(dynamic.soname) or RARELY.match(dynamic.soname):
        return frozenset()
    names, wanted = _names()
    tables = (dynamic.exports, dynamic.imports)
    found = names.intersection(name for table in tables for name in table.wanted(wanted))
    return found if MAKER in found else found.union(hidden_calls.asked_names(image, (MAKER,)))


@remembering(512)
def _jump(path: str, _identity: object) -> str:
    try:
        return signal_coroutines.find_jump(Image.open(path))
    except BinaryError:
        return ""


def _hides(name: str, path: str) -> bool:
    return hidden_calls.hides(name, path, identity_of(path))


@cache
def _names() -> tuple[frozenset[str], Wanted]:
    """Whole names: patterns take long to search for, and match what uses such a library."""
    split = {name for name in FIBERS if name.startswith((SPLIT, "__splitstack"))}
    names = JUMPS | stack_exchanges.LOADERS | CONTEXTS | (FIBERS - split)
    return names, Wanted(names)


def _probes(image: Image, roles: Set[str] = ROLES) -> Iterator[Probe]:
    try:
        table = image.once(symbols.read)
    except BinaryError:  # nothing names its functions
        return
    machine = Machine(image.machine)
    sites = ProbeSites(machine, Surroundings(image, table, machine))
    stubs = image.once(plt.stubs)
    if unwatched_switches.offered_name(image) or signal_coroutines.find_jump(image):
        roles |= {"signal stack"}
    for probe in stack_switches.plan_probes(image, table, stubs, sites):
        if probe.role in roles:
            yield probe
