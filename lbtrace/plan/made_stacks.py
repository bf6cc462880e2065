"""Probes on the functions that set up stacks, and where coroutines exchange what is on one.

Which stack a call is on, the kernel says by the mapping that holds it (bpf_src/stacks.h). Where
several lie in one mapping (arrays, what malloc returns), the functions that set them up tell where.
Those of the C library and of Boost.Context are probed where they are defined, in the traced files
and beside them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Binary, Fetch, Plan, Probe, Prototype
from lbtrace.plan import stack_exchanges
from lbtrace.plan.code_context import CodeContext
from lbtrace.plan.known_names import SYSTEM
from lbtrace.plan.processes import identity_of, mapped_paths
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import long
from lbtrace.system.lookups import remembering

MAKERS = frozenset({"makecontext", "make_fcontext"})
"""Functions that set up a stack: of C libraries, and of Boost.Context."""

UC_STACK = 16
"""Where the ``stack_t`` of a ``ucontext_t`` is, in glibc's ``sysdeps/unix/sysv/linux/x86/sys``
(and aarch64's, alike); its pointer comes first, its size 16 bytes on (``asm-generic/signal.h``)."""

_WANTED = Wanted(MAKERS)
_ENDING = b"context\0"
_PYTHON = re.compile(r"(lib)?python[\d.]*")
_GREENLET = re.compile(r"_greenlet\..*so")

PlanProbes: TypeAlias = Callable[[Image], Iterator[Probe]]
"""What plans the probes of a file."""

SHARED = "exchanges what is on stacks, which is not watched"


def add(plan: Plan, images: Sequence[Image], selection: Selection) -> Plan:
    """Return ``plan``, which traces ``images``, with probes on what sets up or exchanges stacks in
    the traced processes."""
    if all(binary.go for binary in plan.binaries):  # its calls belong to goroutines
        return plan
    paths = _paths(images, selection)
    if _maker_among(images, paths):
        plan = _extended(plan, ((path, plan_probes) for path in paths))
    if selection.mapped_files is None:  # `lbtrace.session.prepare` looks for what exchanges stacks
        return plan
    exchanging = _exchanging(paths, selection.mapped_files.program)
    before = len(plan.probes)
    plan = _extended(plan, ((path, stack_exchanges.plan_probes) for path in exchanging))
    return _unseen(plan, exchanging) if len(plan.probes) == before else plan


def _unseen(plan: Plan, paths: Sequence[str]) -> Plan:
    """``plan``, in which exchanges on stacks are not seen that the files at ``paths`` make."""
    if not paths:
        return plan
    note = f"{paths[0]} {SHARED}: calls that wait there end open"
    return replace(plan, unseen_switches="exchanges", notes=(*plan.notes, note))


def find_maker(images: Sequence[Image], selection: Selection) -> str:
    """Return a file of the traced processes, as far as they are known, that may set up stacks, or
    ``""``."""
    return _maker_among(images, _paths(images, selection))


def _maker_among(images: Sequence[Image], paths: Iterable[str]) -> str:
    for image in images:
        if not SYSTEM.match(image.once(Dynamic).library) and any(_own(image)):
            return image.path
    return next((path for path in paths if _names_maker(path, identity_of(path))), "")


def plan_probes(image: Image) -> Iterator[Probe]:
    """Yield probes on the functions of ``image`` that set up stacks."""
    found = [*_own(image)]
    if not found:
        return
    machine = Machine(image.machine)
    sites = ProbeSites(machine, CodeContext(image, image.once(symbols.read), machine))
    first, second = _arguments(image.machine)
    size = Fetch(register=second)
    fetches = {
        "makecontext": (
            Fetch(register=first, offset=UC_STACK, read="integer", size=8),
            Fetch(register=first, offset=UC_STACK + 16, read="integer", size=8),
        ),
        "make_fcontext": (Fetch(register=first), size),
    }
    for address, name in found:
        site = sites.start(address, image.offset(address), stub=False)
        if site is not None:
            role = "stack" if name == "makecontext" else "stack below"
            reporting = replace(site, reason=f"reports the stacks of {name}")
            yield Probe(reporting, role, fetches=fetches[name])


def _own(image: Image) -> Iterator[tuple[int, str]]:
    """Yield where a file defines what sets up stacks, and its name."""
    try:
        if not symbols.may_name(image, MAKERS):
            return
        table = image.once(symbols.read)
    except BinaryError:  # nothing names its functions
        return
    for function in table.functions.wanted(_WANTED):
        names = MAKERS.intersection((function.name, *function.aliases))
        if names:
            yield function.address, min(names)


def _arguments(machine: str) -> Sequence[str]:
    """The registers in which a function of C gets its first two arguments."""
    located = locate_values(machine, Prototype((long(""), long("")))).parameters
    return [min(location.registers) for location in located]


def _paths(images: Sequence[Image], selection: Selection) -> list[str]:
    """The files of the traced processes, as far as they are known: what a library alone is loaded
    with matters only if it sets up stacks."""
    own = [image.path for image in images]
    alone = selection.mapped_files is None and not any(image.is_program for image in images)
    if alone and not any(_names_maker(path, identity_of(path)) for path in own):
        return own
    return [*dict.fromkeys((*own, *mapped_paths(images, selection.mapped_files)))]


@remembering(512)
def _names_maker(path: str, _identity: object) -> bool:
    """Whether a file that is no library of the system imports or offers what sets up stacks: it
    names that among its dynamic symbols."""
    try:
        dynamic = Image.open(path).once(Dynamic)
    except BinaryError:
        return False
    names = dynamic.names_ending(_ENDING)
    return not MAKERS.isdisjoint(names) and not SYSTEM.match(dynamic.library)


def _exchanging(paths: Iterable[str], program: str) -> list[str]:
    """The files that exchange what is on stacks, or those that may be loaded and do. ``program`` is
    the path of the program, with its links."""
    named = [(path, os.path.basename(path)) for path in (*paths, program)]
    found = [path for path, name in named if _GREENLET.match(name)]
    loading = [path for path, name in named if _PYTHON.match(name)]
    return found or (stack_exchanges.find_loadable(loading) if loading else [])


def _extended(plan: Plan, files: Iterable[tuple[str, PlanProbes]]) -> Plan:
    """``plan`` with probes in ``files``, and what plans those of each."""
    binaries, probes = list(plan.binaries), list(plan.probes)
    numbers = {binary.path: number for number, binary in enumerate(binaries)}
    for path, plan_probes in files:
        try:
            image = Image.open(path)
        except BinaryError:  # replaced since
            continue
        number = numbers.setdefault(path, len(binaries))
        planned = {(p.binary, p.site.address, p.role) for p in probes}
        found = [
            replace(probe, binary=number)
            for probe in plan_probes(image)
            if (number, probe.site.address, probe.role) not in planned
        ]
        probes += found
        if found and number == len(binaries):
            binaries.append(Binary(image.path, image.build_id, image.machine))
        elif not found and number == len(binaries):
            del numbers[path]
    return replace(plan, binaries=tuple(binaries), probes=tuple(probes))
