"""Merges plans for single binaries into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.model import NO_BINARY, NO_FUNCTION, Addition, Binary, Function, Plan, Probe


def merge_plans(plans: Sequence[Plan], *, tells_untraced: bool = True) -> Plan:
    """Return the plan that does what ``plans`` do, which have one binary each; a note
    ``tells_untraced`` ones.

    Functions whose name occurs in several binaries are called ``name@binary``.
    """
    if len(plans) == 1 and plans[0].functions:
        return plans[0]
    binaries = tuple(plan.binaries[0] for plan in plans)
    functions: list[Function] = []
    probes: list[Probe] = []
    notes: list[str] = []
    for number, plan in enumerate(plans):
        if tells_untraced and not plan.functions:
            notes.append(_untraced(plan.binaries[0]))
        first = len(functions)
        functions += (replace(f, binary=number) for f in plan.functions)
        relays = max((probe.relay for probe in probes), default=0)
        probes += (
            replace(
                probe,
                function=_moved(probe, first),
                binary=number,
                relay=probe.relay and probe.relay + relays,
            )
            for probe in plan.probes
        )
        notes += plan.notes
    merged = Plan(binaries, _disambiguated(functions, binaries), tuple(probes), tuple(notes))
    unreliable = (plan.unseen_switches for plan in plans if plan.unseen_switches)
    return replace(merged, unseen_switches=next(unreliable, ""))


def distinct(images: Iterable[Image]) -> list[Image]:
    """Return ``images``, of several names of a file the first."""
    files: dict[tuple[int, int], Image] = {}
    for image in images:
        files.setdefault(image.file.identity, image)
    return list(files.values())


def empty(images: Iterable[Image]) -> Plan:
    """Return a plan for binaries, without probes."""
    return Plan(tuple(Binary(i.path, i.build_id, i.machine) for i in images), (), ())


def without_false_notes(plan: Plan) -> Plan:
    """Return ``plan`` without the notes that nothing is traced of binaries of which something else
    than functions is by now."""
    traced = {function.binary for function in plan.functions} - {NO_BINARY}
    false = {_untraced(plan.binaries[number]) for number in traced}
    return replace(plan, notes=tuple(note for note in plan.notes if note not in false))


def _untraced(binary: Binary) -> str:
    return f"{binary.path}: no function of it is traced"


def as_addition(plan: Plan, to: Plan) -> Addition:
    """Return what makes of the plan ``to`` one that does what ``plan`` does as well."""
    binaries, functions = len(to.binaries), len(to.functions)
    return Addition(
        (binaries, functions, len(to.probes)),
        plan.binaries,
        tuple(replace(f, binary=binaries + f.binary) for f in plan.functions),
        tuple(
            replace(probe, function=_moved(probe, functions), binary=binaries + probe.binary)
            for probe in plan.probes
        ),
        plan.notes,
    )


def attached_since(addition: Addition, time: int) -> Addition:
    """Return an addition whose probes are attached since a time (CLOCK_MONOTONIC, ns)."""
    return replace(addition, probes=tuple(replace(each, since=time) for each in addition.probes))


def _moved(probe: Probe, first: int) -> int:
    """The new number of the function of a probe, if it has one."""
    return probe.function if probe.function == NO_FUNCTION else first + probe.function


def _disambiguated(
    functions: Sequence[Function], binaries: Sequence[Binary]
) -> tuple[Function, ...]:
    often = Counter(name for name, _ in {(f.name, f.binary) for f in functions})
    names = short_names([binary.path for binary in binaries])
    return tuple(
        replace(f, name=f"{f.name}@{names[f.binary]}") if often[f.name] > 1 else f
        for f in functions
    )


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the ends of ``paths`` that distinguish them: file names, mostly."""
    parts = [path.split("/") for path in paths]
    names = []
    for own in parts:
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        names.append("/".join(own[-length:]))
    return names
