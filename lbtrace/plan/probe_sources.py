"""Probes of sources with a finder of their own: what they show, by the types and places of values.

A finder is asked once for all that a request names of its source. Which of the values are shown,
compared or aggregated is decided here, alike for all sources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.lasting import Lasting
from lbtrace.machine import Machine
from lbtrace.model import Binary, Fetch, Function, Plan, Probe, Prototype
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import select_values
from lbtrace.plan.warnings import name_functions
from lbtrace.probes import PROBES

UNFIT = "left out, as what was asked for is not there"


class Found(NamedTuple):
    """What a source has found, without values: ``function`` says how it is shown, ``opens`` and
    ``closes`` where it is (None: no end is seen). The values are those of the ``prototype``, at
    ``places``. Where they are shown, they are ``completed``, and ``again`` is a probe that closes
    with more fetches, which `Completed.again` has. ``by_register``: expressions may name registers
    alone there. ``lasting`` finds the arguments that are there when the call ends."""

    function: Function
    opens: Probe
    prototype: Prototype | None
    places: Callable[[Prototype], Locations]
    closes: Probe | None = None
    completed: Callable[[CallValues], Completed] | None = None
    again: Probe | None = None
    by_register: bool = False
    lasting: Callable[[], Lasting | None] = lambda: None


class Completed(NamedTuple):
    """Values, and what is fetched at the end beside what is always fetched there."""

    values: CallValues
    again: tuple[Fetch, ...] = ()


class Finder(Protocol):
    """What the module has that `lbtrace.probes.Source.finder` names."""

    def find(
        self, images: Sequence[Image], patterns: Sequence[str], selection: Selection
    ) -> Iterable[Found | str]:
        """Yield what ``patterns`` select, of the ``images`` or elsewhere, and notes on that. What
        is in a file has the image's position as ``binary``. Raises `LbtraceError`."""
        ...


def split(patterns: Iterable[str]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the patterns of functions, and those of sources that have a finder, which are written
    ``SOURCE:PATTERN``. ``NAME::`` is a namespace."""
    functions, chosen = list[str](), dict[str, list[str]]()
    for pattern in patterns:
        name, _, rest = pattern.partition(":")
        source = PROBES.get(name)
        if source is not None and source.finder and rest and not rest.startswith(":"):
            chosen.setdefault(name, []).append(rest)
        else:
            functions.append(pattern)
    return tuple(functions), chosen


def empty(images: Sequence[Image]) -> Plan:
    """Return a plan for binaries, without probes."""
    return Plan(tuple(Binary(i.path, i.build_id, i.machine) for i in images), (), ())


def add(
    plan: Plan, images: Sequence[Image], chosen: Mapping[str, Sequence[str]], selection: Selection
) -> Plan:
    """Return ``plan`` with the probes that were chosen. Raises `NoMatchError`, `UsageError`."""
    functions, probes, said = list(plan.functions), list(plan.probes), list(plan.notes)
    unfit: dict[str, UsageError] = {}
    for source, patterns in chosen.items():
        finder: Finder = import_module(PROBES[source].finder)
        given = [*finder.find(images, patterns, selection)]
        found = [each for each in given if isinstance(each, Found)]
        said += [each for each in given if isinstance(each, str)]
        if not found:
            paths = " or ".join(image.path for image in images)
            named = ", ".join(f"{source}:{pattern}" for pattern in patterns)
            raise NoMatchError(f"{named}: matches no probe of {paths}", "use another pattern")
        for each in found:
            try:
                function, own = _plan(each, images, selection)
            except UsageError as error:  # it may fit others
                unfit[each.function.name] = error
                continue
            probes += [replace(probe, function=len(functions)) for probe in own]
            functions.append(function)
    if len(functions) == len(plan.functions):
        raise next(iter(unfit.values()))
    notes = (*said, *name_functions([*unfit], UNFIT))
    return replace(plan, functions=tuple(functions), probes=tuple(probes), notes=notes)


def _plan(
    found: Found, images: Sequence[Image], selection: Selection
) -> tuple[Function, list[Probe]]:
    """What is shown, and its probes with their values."""
    binary = found.function.binary
    machine = Machine(images[binary].machine if binary >= 0 else os.uname().machine)
    closes = found.closes if selection.returns != "none" else None
    chosen, lasting = selection.values, None
    if selection.request and (closes or selection.aggregates):
        lasting = found.lasting()
    values = select_values(
        machine,
        found.prototype,
        replace(chosen, off_cpu=chosen.off_cpu and closes is not None),
        found.places,
        undeclared=found.prototype is None,
        by_register=found.by_register,
        lasting=lasting,
    )
    if lasting and values.asks_return:
        closes = found.closes
    again: tuple[Fetch, ...] = ()
    if found.completed and not selection.aggregates:
        values, again = found.completed(values)
    if values.asks_return and closes is None:
        raise UsageError(f"{found.function.name} has no end that is seen", "leave retval out")
    keeps = values.kept
    opens = replace(found.opens, fetches=values.fetches, conditions=values.conditions, keeps=keeps)
    if values.result_conditions:
        opens = replace(opens, action="keep")
    probes = [opens]
    for closing, fetches in ((closes, values.result_fetches), (found.again, again)):
        if closes and closing and (closing is closes or fetches):
            conditions = values.result_conditions
            ends = replace(closing, fetches=fetches, conditions=conditions, keeps=keeps)
            probes.append(ends)
    if selection.aggregates:
        from lbtrace.plan import aggregation  # imported here because most plans send

        probes = [*aggregation.choose_probes(probes, selection.action, values)]
    result = values.result if closes else None
    typed = found.prototype is not None
    shown = replace(found.function, parameters=values.parameters, result=result, typed=typed)
    has_end = closes or found.opens.role == "point"
    return (shown if has_end else replace(shown, returns="none")), probes
