"""Functions, sites and plans as lines of text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

import msgspec

from lbtrace.model import NO_FUNCTION, Function, Plan, Probe, Site, Type
from lbtrace.probes import PROBES

POINTED = re.compile(r"(\(|::)\*\)")
"""Where a pointer to a function or an array has its name; later ones are in its parameters."""

ARRAY = re.compile(r"([\w ]*\w)(\[\w*\])")
"""An array of a tracepoint's record."""

INDENT = " " * 19


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield what ``attach --dry-run`` shows."""
    for number, binary in enumerate(plan.binaries):
        build = f", build-id {binary.build_id}" if binary.build_id else ""
        yield f"{binary.path} ({binary.machine}{build})"
        own = (probe for probe in plan.probes if probe.binary == number)
        yield from _probe_lines(plan, [probe for probe in own if PROBES[probe.source].attach])
    opening = [p for p in plan.probes if p.event and p.role in ("opens", "point")]
    if opening:
        yield "the kernel"
    for probe in opening:
        function, numbered = plan.functions[probe.function], probe.source != "kernel"
        yield event_line(function, returns=probe.role != "point", numbered=numbered)


def _probe_lines(plan: Plan, probes: list[Probe]) -> Iterator[str]:
    for probe in probes:
        if probe.role == "point" or probe.pair:
            yield from _point_lines(plan, probe)
        elif probe.role == "opens":
            function = plan.functions[probe.function]
            yield from function_lines(function, probe.site)
            yield f"{INDENT}returns by {function.returns}"
            if probe.gate:
                yield f"{INDENT}only what happens below its calls is recorded, and these"
        elif probe.role == "more values":
            inside = ", ".join(_parameter(p.type, p.name) for p in probe.values)
            yield f"{INDENT}and by a further probe there: {inside}"
        elif probe.function != NO_FUNCTION and not PROBES[probe.source].at_return:
            yield _site_line(plan.functions[probe.function], probe.site)
    others = (probe.site for probe in probes if probe.function == NO_FUNCTION)
    for reason, sites in groupby(others, lambda site: site.reason):
        first, *more = (f"{site.address:#x}" for site in sites)
        also = f"; so do {len(more)} more:" if more else ""
        yield f"{first:>10}         {reason}{also}"
        yield from wrap(" ".join(more), 100, initial_indent=INDENT, subsequent_indent=INDENT)


def event_line(function: Function, *, returns: bool = True, numbered: bool = True) -> str:
    """Return what is at an event of the kernel, as ``list`` shows it, by its number if it is
    ``numbered``; one that ``returns`` is a call."""
    written = signature(function)
    if not returns:
        written = f"{function.name}({_inside(function)})"
    elif function.returns == "none":
        written += ", whose return is not seen"
    return f"{function.address if numbered else '':>10}         {written}"


def _inside(function: Function) -> str:
    return ", ".join(_parameter(p.type, p.name) for p in function.parameters)


def _point_lines(plan: Plan, probe: Probe) -> Iterator[str]:
    function = plan.functions[probe.function]
    yield f"{function.address:#10x}         {function.name}({_inside(function)})"
    yield _site_line(function, probe.site)
    if probe.pair and probe.role == "opens":
        there = any(p.pair == probe.pair and p.role == "closes" for p in plan.probes)
        later = "" if there else ", in a file that may be loaded later"
        yield f"{INDENT}closed by {function.returns.partition(': ')[2]}{later}"


def function_lines(
    function: Function,
    site: Site | msgspec.UnsetType | None,
    defined: tuple[str, int] | None = None,
) -> Iterator[str]:
    """Yield a function as ``list`` shows it, with the file and line where it is ``defined``, and
    below it the place of its probe, if asked for: None where there is none, UNSET where sites are
    not shown."""
    written, names = signature(function), function.aliases
    if _plain_name(function) not in written:  # for example of Go's methods
        names = (function.name, *names)
    also = f"  = {', '.join(names)}" if names else ""
    at = f"  at {os.path.basename(defined[0])}:{defined[1]}" if defined and all(defined) else ""
    yield f"{function.address:#10x} {function.size:>6}  {written}{also}{at}"
    if isinstance(site, Site):
        yield _site_line(function, site)
    elif site is None:
        yield f"{INDENT}no probe: its first instructions cannot be probed"


def _site_line(function: Function, site: Site) -> str:
    cost = "emulated" if site.emulated else "single-stepped"
    why = "" if site.reason in (cost, "") else f": {site.reason}"
    return f"{INDENT}{site.address - function.address:+} {site.displaced}, {cost}{why}"


def signature(function: Function) -> str:
    """Return a function as its source declares it, without the parts that are unknown."""
    if not function.typed:
        return function.name
    if function.language == "go":
        from lbtrace.commands import show_go  # imported here because it compiles long patterns

        return show_go.signature(function)
    result = function.result.type if function.result else None
    return f"{_declared(result, _plain_name(function))}({_inside(function)})"


def _plain_name(function: Function) -> str:
    """The name without the parameter list that distinguishes it from others of the same name."""
    if not function.name.endswith((")", "const")):
        return function.name
    from lbtrace.elf import cpp_names, demangle  # imported here because few have such names

    for symbol in filter(demangle.is_mangled, function.aliases):
        short = demangle.short(symbol)
        for name in (short, cpp_names.shorten(short)):
            if function.name.startswith(f"{name}("):
                return name
    return function.name


def _parameter(type: Type, name: str) -> str:
    written = type.name if type.has_values else ""
    if array := ARRAY.fullmatch(written):
        return f"{array[1]} {name}{array[2]}"
    declared, found = POINTED.subn(lambda match: f"{match[1]}*{name})", written, count=1)
    return declared if found else _declared(type, name)


def _declared(type: Type | None, name: str) -> str:
    written = type.name if type is not None and type.has_values else "void"
    return written + name if written.endswith("*") or not name else f"{written} {name}"
