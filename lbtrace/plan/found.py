"""What sources find, and how plans are made of it (of functions: `lbtrace.plan.function_plans`).

A finder is asked once for all that a request names of its source. Which of the values are shown,
compared or aggregated is decided here, alike for all sources.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, LbtraceError, NoMatchError, UsageError, option
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.lasting import Lasting
from lbtrace.machine import Machine
from lbtrace.model import Fetch, Function, GoLayout, Plan, Probe, Prototype
from lbtrace.naming import NAMING
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import select_values
from lbtrace.plan.warnings import name_functions
from lbtrace.text import some

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


class PlannedPoint(NamedTuple):
    """What is shown of a point, and its probes: the first one, and those that fetch more of its
    values."""

    function: Function
    probes: tuple[Probe, ...]


class Refusal(NamedTuple):
    """A place at which no probe is: the ``name`` of its point, and why, as a clause."""

    name: str
    reason: str


class Report(NamedTuple):
    """What there is to say when all points of the image at position ``binary`` are planned, each a
    ``noun``: those that were ``refused``, how many ``places`` each has, an ``error`` where values
    do not fit some, ``notes``; how the goroutines are found that come by (None: they belong to
    threads), and probes that report when these end."""

    binary: int
    noun: str
    refused: Sequence[Refusal]
    places: Counter[str]
    error: UsageError | None
    notes: Sequence[str]
    layout: GoLayout | None = None
    ends: Sequence[Probe] = ()


class Outer(NamedTuple):
    """A ``function`` below whose calls all happens that is recorded."""

    function: Function


Item: TypeAlias = Function | Outer | Found | PlannedPoint | Report | str
"""What a source has found, or has planned; a report on points, after them; a note."""


class Finder(Protocol):
    """What the module has that `lbtrace.naming.Naming.finder` names."""

    def find(self, images: Sequence[Image], selection: Selection) -> Iterable[Item]:
        """Yield what ``selection`` names of the source, of the ``images`` or elsewhere. What is in
        a file has the image's position as ``binary``. Raises `LbtraceError`."""
        ...


def find(finder: str, images: Sequence[Image], selection: Selection) -> list[Item]:
    """Return what a finder finds. Raises `LbtraceError`, `NoMatchError` where that is nothing, but
    of functions places where they were inlined."""
    module: Finder = import_module(f"lbtrace.plan.{finder}")
    found = [*module.find(images, selection)]
    if not (found or selection.inlined):
        asked = [name for name in selection.named if NAMING[name].finder == finder]
        named = ", ".join(option(name, each) for name in asked for each in selection.named[name])
        paths = " or ".join(image.path for image in images)
        raise NoMatchError(f"{named}: is nowhere in {paths}", "name something else")
    return found


def add_items(
    plan: Plan,
    images: Sequence[Image],
    selection: Selection,
    items: Iterable[Item],
    errors: list[LbtraceError],
) -> Plan:
    """Return ``plan`` with what one finder has found but functions; ``errors`` gets what is to be
    raised where that adds nothing."""
    functions, probes, binaries = list(plan.functions), list(plan.probes), list(plan.binaries)
    reports, notes, unfit = list[Report](), list[str](), list[str]()
    for each in items:
        if isinstance(each, Function | Outer):
            continue
        if isinstance(each, str):
            notes.append(each)
            continue
        if isinstance(each, Report):
            reports.append(each)
            continue
        try:
            made = _plan(each, images, selection) if isinstance(each, Found) else each
        except UsageError as error:  # it may fit others
            errors.append(error)
            unfit.append(each.function.name)
            continue
        function, own = made
        number, at = len(functions), function.binary
        probes += [replace(probe, function=number, binary=at) for probe in own]
        functions.append(function)
    refused = [each for report in reports for each in report.refused]
    errors += [report.error for report in reports if report.error]
    if refused:
        named = some([*dict.fromkeys(each.name for each in refused)])
        reasons = "; ".join(dict.fromkeys(each.reason for each in refused))
        hint = f"choose another {reports[0].noun}"
        errors.append(BinaryError(f"{named}: no probe can be there: {reasons}", hint))
    for report in reports:
        binary = binaries[report.binary]
        if report.layout and (binary.go is None or not binary.go.types[0]):
            ends = report.ends if binary.go is None else ()
            probes += [replace(each, binary=report.binary) for each in ends]
            binaries[report.binary] = replace(binary, go=report.layout)
    said = [note for report in reports for note in report.notes]
    places = sum((report.places for report in reports), Counter[str]())
    said += [
        note for what, names in _left_out(refused, places) for note in name_functions(names, what)
    ]
    return replace(
        plan,
        binaries=tuple(binaries),
        functions=tuple(functions),
        probes=tuple(probes),
        notes=(*plan.notes, *said, *notes, *name_functions(unfit, UNFIT)),
    )


def _left_out(refused: Iterable[Refusal], places: Counter[str]) -> Iterable[tuple[str, list[str]]]:
    """What is said of points without a probe, or of some of their ``places``, and of which."""
    found: dict[str, list[str]] = {}
    for (name, reason), count in Counter(refused).items():
        where = "" if count == places[name] else f" at {count} of {places[name]} places"
        found.setdefault(f"left out{where}: {reason}", []).append(name)
    return found.items()


def _plan(found: Found, images: Sequence[Image], selection: Selection) -> PlannedPoint:
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
        raise UsageError(
            f"{found.function.name} has no end that is seen", "leave retval and duration out"
        )
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
    return PlannedPoint(shown if has_end else replace(shown, returns="none"), tuple(probes))
