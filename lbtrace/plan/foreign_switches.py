"""Switches of stacks in files that are not traced, but run in the traced processes.

A library of fibers switches the stacks on which traced functions run. Where that is not seen,
calls of one fiber seem to be made by another's, and to be left by an exception when that one goes
on. So its switches are reported as those of traced files are (`lbtrace.plan.stack_switches`).
Asked are files that are known by names: what only looks like a switch, as code of codecs may, is
not worth a probe in a file that nobody asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec.structs import replace

from lbtrace.elf import plt, symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Binary, Plan, Probe
from lbtrace.plan import stack_switches, uretprobe_hazards
from lbtrace.plan.call_graph import TracedBinary
from lbtrace.plan.code_context import Surroundings
from lbtrace.plan.hazard_table import HAZARDS, SWITCHES, SYSTEM
from lbtrace.system.lookups import remembering

MOST = 8
"""Files of which switches are reported."""

SPLIT = "__morestack"
"""Continues in another segment of a stack, and comes back as a function returns."""

RARELY = re.compile(r"libcrypto\.so")
"""Libraries, by DT_SONAME, that many programs have, and that switch stacks only for those which
ask for it: ASYNC_start_job(3)."""

ROLES = frozenset({"switch", "stack"})


def add(plan: Plan, images: Sequence[Image], beside: Closure | None) -> Plan:
    """Return ``plan``, which traces ``images``, with probes on the switches of what is ``beside``
    them in the traced process; without any where every process is traced (None), most of which
    may not run the images."""
    if beside is None:
        return plan
    binaries, probes = list(plan.binaries), list(plan.probes)
    for image in _switching(images, beside):
        found = [*_probes(image)]
        probes += (replace(probe, binary=len(binaries)) for probe in found)
        if found:
            binaries.append(Binary(image.path, image.build_id, image.machine))
    return replace(plan, binaries=tuple(binaries), probes=tuple(probes))


def _switching(images: Sequence[Image], beside: Closure) -> Iterator[Image]:
    traced = {image.file.identity for image in images}
    parts = [TracedBinary(image, {}, ()) for image in images]
    running = uretprobe_hazards.processes(parts, beside)
    paths = dict.fromkeys(path for each in running for path in each.paths)
    count = 0
    for path in paths:
        identity = uretprobe_hazards.identity_of(path)
        if identity in traced or count == MOST or not _has_switches(path, identity):
            continue
        try:
            yield Image.open(path)
            count += 1
        except BinaryError:  # replaced since
            continue


@remembering(512)
def _has_switches(path: str, _identity: object) -> bool:
    """Whether the names that a file imports or offers are those of a library of fibers."""
    try:
        dynamic = Dynamic(Image.open(path))
    except BinaryError:
        return False
    if SYSTEM.match(dynamic.soname) or RARELY.match(dynamic.soname):
        return False
    names, wanted = _names()
    found = (name for table in (dynamic.exports, dynamic.imports) for name in table.wanted(wanted))
    return any(name in names for name in found)


@cache
def _names() -> tuple[frozenset[str], Wanted]:
    """Whole names: patterns take long to search for, and match what uses such a library."""
    rows = [h for h in HAZARDS if h.why == SWITCHES and SPLIT not in h.names]
    names = frozenset(name for hazard in rows for name in hazard.names)
    return names, Wanted(names)


def _probes(image: Image) -> Iterator[Probe]:
    try:
        table = image.once(symbols.read)
    except BinaryError:  # nothing names its functions
        return
    machine = Machine(image.machine)
    sites = ProbeSites(machine, Surroundings(image, table, machine))
    stubs = image.once(plt.stubs)
    for probe in stack_switches.plan_probes(image, table, stubs, sites):
        if probe.role in ROLES:
            yield probe
