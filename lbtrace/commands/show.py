"""Functions, sites and plans as lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

import msgspec

from lbtrace.commands import show_go
from lbtrace.model import OF_FUNCTIONS, Function, Plan, Probe, Site, Type, Void

POINTED = re.compile(r"(\(|::)\*\)")
"""Where a pointer to a function or an array has its name; later ones are in its parameters."""

INDENT = " " * 19


def plan_lines(plan: Plan) -> Iterator[str]:
    """What ``attach --dry-run`` shows."""
    for number, binary in enumerate(plan.binaries):
        build = f", build-id {binary.build_id}" if binary.build_id else ""
        yield f"{binary.path} ({binary.machine}{build})"
        yield from _probe_lines(plan, [p for p in plan.probes if p.binary == number])


def _probe_lines(plan: Plan, probes: list[Probe]) -> Iterator[str]:
    for probe in probes:
        function = plan.functions[probe.function]
        if probe.kind in ("call", "entry"):
            yield from function_lines(function, probe.site)
            yield f"{INDENT}returns by {function.returns}"
        elif probe.kind in ("return", "tail"):
            yield _site_line(function, probe.site)
    others = (probe.site for probe in probes if probe.kind not in OF_FUNCTIONS)
    for reason, sites in groupby(others, lambda site: site.reason):
        first, *more = (f"{site.address:#x}" for site in sites)
        also = f"; so do {len(more)} more:" if more else ""
        yield f"{first:>10}         {reason}{also}"
        yield from wrap(" ".join(more), 100, initial_indent=INDENT, subsequent_indent=INDENT)


def function_lines(function: Function, site: Site | msgspec.UnsetType | None) -> Iterator[str]:
    """A function as ``list`` shows it, and below it the place of its probe, if asked
    for: None where there is none, UNSET where nobody asked."""
    written, names = signature(function), function.aliases
    if function.name not in written:  # as of Go's methods
        names = (function.name, *names)
    also = f"  = {', '.join(names)}" if names else ""
    yield f"{function.address:#10x} {function.size:>6}  {written}{also}"
    if isinstance(site, Site):
        yield _site_line(function, site)
    elif site is None:
        yield f"{INDENT}no probe: the kernel refuses its first instructions"


def _site_line(function: Function, site: Site) -> str:
    cost = "emulated" if site.emulated else "single-stepped"
    why = "" if site.reason in (cost, "") else f": {site.reason}"
    return f"{INDENT}{site.address - function.address:+} {site.displaced}, {cost}{why}"


def signature(function: Function) -> str:
    """A function as its source declares it, as far as that is known."""
    if not function.typed:
        return function.name
    if function.language == "go":
        return show_go.signature(function)
    inside = ", ".join(_parameter(p.type, p.name) for p in function.parameters)
    result = function.result.type if function.result else Void()
    return f"{_declared(result, function.name)}({inside})"


def _parameter(type: Type, name: str) -> str:
    written = "" if isinstance(type, Void) else type.name
    declared, found = POINTED.subn(lambda match: f"{match[1]}*{name})", written, count=1)
    return declared if found else _declared(type, name)


def _declared(type: Type, name: str) -> str:
    written = "void" if isinstance(type, Void) else type.name
    return written + name if written.endswith("*") or not name else f"{written} {name}"
