"""Probes that are selected as ``SOURCE:PATTERN``: sources with a finder of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.model import Binary, Function, Plan, Probe
from lbtrace.plan.selection import Selection
from lbtrace.probes import PROBES


class Chosen(NamedTuple):
    """What was selected: a ``pattern`` of a source, and its ``finder``."""

    source: str
    pattern: str
    finder: str


class Finder(Protocol):
    """What the module has that `lbtrace.probes.Source.finder` names."""

    def find_probes(self, image: Image, pattern: str) -> Iterable[tuple[Function, Sequence[Probe]]]:
        """Return what ``pattern`` selects in a file: by which name and with which values it is
        shown, and its probes. That they are of this file and of this function goes without
        saying."""
        ...


def split(patterns: Iterable[str]) -> tuple[tuple[str, ...], list[Chosen]]:
    """Return the patterns of functions, and those of sources that have a finder. ``NAME::`` is a
    namespace."""
    functions, chosen = list[str](), list[Chosen]()
    for pattern in patterns:
        name, _, rest = pattern.partition(":")
        source = PROBES.get(name)
        if source is not None and source.finder and rest and not rest.startswith(":"):
            chosen.append(Chosen(name, rest, source.finder))
        else:
            functions.append(pattern)
    return tuple(functions), chosen


def empty(images: Sequence[Image]) -> Plan:
    """Return a plan for binaries, without probes."""
    return Plan(tuple(Binary(i.path, i.build_id, i.machine) for i in images), (), ())


def add(
    plan: Plan, images: Sequence[Image], chosen: Sequence[Chosen], selection: Selection
) -> Plan:
    """Return ``plan`` with the probes that were chosen. Raises `NoMatchError`, `UsageError`."""
    if selection.request is not None and (selection.request.wanted or selection.request.test):
        raise UsageError(
            f"{option('arg')} and {option('where')} are about functions,"
            f" not about probes of {chosen[0].source}",
            "leave them out",
        )
    functions, probes = list(plan.functions), list(plan.probes)
    for source, pattern, finder in chosen:
        find: Finder = import_module(finder)
        before = len(functions)
        for binary, image in enumerate(images):
            for function, own in find.find_probes(image, pattern):
                for probe in own:
                    sends = probe.action == "send"
                    action = selection.action if sends and probe.role == "opens" else probe.action
                    probes.append(
                        replace(probe, function=len(functions), binary=binary, action=action)
                    )
                functions.append(replace(function, binary=binary))
        if len(functions) == before:
            paths = " or ".join(image.path for image in images)
            raise NoMatchError(
                f"{source}:{pattern}: matches no probe of {paths}", "use another pattern"
            )
    return replace(plan, functions=tuple(functions), probes=tuple(probes))
