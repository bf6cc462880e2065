"""Plans probes at given places inside of functions."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Literal, NamedTuple

from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.dwarf_registers import program_counter
from lbtrace.abi.locations import Location
from lbtrace.dwarf.scopes import Variable
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.errors import UsageError, option
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.sites import NO_FUNCTION
from lbtrace.model import UNKNOWN, Function, Probe, Prototype, Site, Value
from lbtrace.model.wire_limits import CHUNKS, FETCHES
from lbtrace.plan.found import PlannedPoint, Refusal, Report
from lbtrace.plan.placement import Placer
from lbtrace.plan.selection import Selection
from lbtrace.plan.traced_functions import go_plan
from lbtrace.plan.value_selection import ValueSelection, of_image, select_values
from lbtrace.plan.warnings import AT_BREAKPOINT, name_functions
from lbtrace.recognize.slots import TOO_MANY

UNFIT = "a value that was asked for is not known there"

NOT_DESCRIBED = (
    "the file is stripped, and no unwind information says which function it is in: use a build"
    " with symbols"
)

PARTS = 16
"""Probes that share the values of a point, at most, because each costs the program time."""


class Point(NamedTuple):
    """A place to probe: its ``name``, the ``address``, and the ``variables`` in scope there.
    ``marked``: it is a marker. ``by_register``: expressions may name registers alone there."""

    name: str
    address: int
    variables: tuple[Variable, ...] = ()
    marked: bool = False
    by_register: bool = False


class PointPlanner:
    """Plans the points of an image, which is the one at position ``binary``; ``noun`` is what they
    are. Of others than plain places the variables in scope are shown where no values are asked for.
    Functions may be known by unwind information only."""

    def __init__(
        self,
        image: Image,
        binary: int,
        selection: Selection,
        noun: Literal["place", "marker", "function"] = "place",
    ) -> None:
        self._binary = binary
        self._noun = noun
        table = image.once(symbols.read_any)
        patched = selection.patched.get(image.file.identity, ())
        self._breakpoints = selection.breakpoints.get(image.file.identity, ())
        self._image = image
        self._machine = Machine(image.machine)
        self._nameless = not table.functions
        placer = Placer(image, table, self._machine, patched=patched)
        self._sites = placer.sites
        self._go = go_plan(image, table)
        self._finds_goroutine = False
        self._selection = selection
        self._values = replace(of_image(selection.values, image), off_cpu=False)
        self._cut: list[str] = []
        self._places: Counter[str] = Counter()
        self.refused: list[Refusal] = []
        self._error: UsageError | None = None

    def report(self) -> Report:
        """Return what there is to say when all points are planned."""
        cut = f"some values omitted: at most {FETCHES} values, {CHUNKS} of them strings, per probe"
        notes = name_functions([*dict.fromkeys(self._cut)], cut)
        report = Report(self._binary, self._noun, self.refused, self._places, self._error, notes)
        if self._go is None or not self._finds_goroutine:
            return report
        report = report._replace(layout=self._go.layout)
        if self._selection.aggregates:
            return report
        from lbtrace.plan.go import runtime_probes  # imported here because only Go needs it

        return report._replace(ends=[*runtime_probes.plan_probes(self._go, telling=False)])

    def _finds_goroutine_at(self, address: int) -> bool:
        return self._go is not None and self._go.finds_goroutine(address)

    def refuse(self, name: str, reason: str) -> None:
        """Keep that no probe is at a place of the point ``name``, and why, as a clause."""
        self._places[name] += 1
        self.refused.append(Refusal(name, reason))

    def plan(self, point: Point, shown: ValueSelection | None = None) -> PlannedPoint | None:
        """What is shown of a point, by as many probes as its values take, or by one where others
        than those selected are ``shown``; None where there can be none."""
        most = 1 if shown or self._selection.aggregates else PARTS
        chosen = shown or self._values
        find = self._sites.marked if point.marked else self._sites.at
        site = find(point.address)
        if isinstance(site, str):
            self.refuse(
                point.name, NOT_DESCRIBED if self._nameless and site == NO_FUNCTION else site
            )
            return None
        if site.address in self._breakpoints:
            self.refuse(point.name, AT_BREAKPOINT)
            return None
        self._places[point.name] += 1
        site = Site(site.address, site.offset, 0, site.displaced, site.emulated)
        try:
            here = program_counter(self._machine.name)
            parts = [p.at(site.address, here) for p in self._parts(point, chosen, most)]
        except UsageError as error:  # it may fit another place of the line
            self.refused.append(Refusal(point.name, UNFIT))
            self._error = self._error or error
            return None
        if any(part.cut for part in parts):
            self._cut.append(point.name)
        first, *others = parts
        function = Function(
            point.name,
            point.address,
            0,
            site.offset,
            parameters=first.parameters,
            typed=True,
            returns="none",
            binary=self._binary,
        )
        found = self._finds_goroutine_at(point.address)
        if self._go and found:
            self._finds_goroutine = True
            self._go.show(value for part in parts for value in part.parameters)
        probe = Probe(
            site,
            "point",
            fetches=first.fetches,
            conditions=first.conditions,
            foreign=self._go is not None and not found,
        )
        if self._selection.aggregates:
            from lbtrace.plan import aggregation  # imported here because most plans send

            (probe,) = aggregation.choose_probes([probe], self._selection.action, first)
        further = [
            replace(
                probe,
                role="more values",
                fetches=part.fetches,
                conditions=part.conditions,
                values=part.parameters,
            )
            for part in others
        ]
        return PlannedPoint(function, (probe, *further))

    def _parts(self, point: Point, chosen: ValueSelection, most: int) -> list[CallValues]:
        """The values of a point, divided among at most so many probes: those asked for by
        expressions, then those in scope if wanted."""
        request = chosen.request if chosen.request and chosen.request.wanted else None
        shown = self._selection.locals or (self._noun != "place" and not request)
        count = len(point.variables) if shown else 0
        parts: list[CallValues] = []
        if request is not None:
            parts.append(self._values_of(point, chosen))
            if most == 1:
                return parts
            chosen = replace(chosen, request=replace(request, wanted=()))
        first = 0
        while first < count or not parts:
            part = self._values_of(point, replace(chosen, args=count, skipped=first))
            fitting = len([*takewhile(_has_slots, part.parameters)])
            if most > 1 and first + fitting < count:
                end = first + max(1, fitting)  # one that needs too many does so anywhere
                part = self._values_of(point, replace(chosen, args=end, skipped=first))
            parts.append(part)
            first += len(part.parameters)
            if len(parts) == most and first < count:
                parts[-1] = _marked_cut(part, count - first)
                break
        return parts

    def _values_of(self, point: Point, chosen: ValueSelection) -> CallValues:
        formals = tuple(variable.formal for variable in point.variables)
        located = tuple(variable.location for variable in point.variables)

        def places(prototype: Prototype) -> Locations:
            return Locations(located[: len(prototype.parameters)], Location())

        return select_values(
            self._machine,
            Prototype(formals),
            chosen,
            places,
            undeclared=False,
            by_register=point.by_register,
            finds_goroutine=self._finds_goroutine_at(point.address),
        )


def _has_slots(value: Value) -> bool:
    """Whether there was room for all parts of a value."""
    return TOO_MANY not in value.reason and all(map(_has_slots, value.members))


def _marked_cut(values: CallValues, missing: int) -> CallValues:
    """``values``, with one in place of the ``missing`` ones that no probe reads."""
    mark = Value("", UNKNOWN, -1, f"… {missing:,} more")
    return replace(values, parameters=(*values.parameters, mark), cut=values.cut + missing)


def refuse_returns(selection: Selection, subject: str) -> None:
    """Raise `UsageError` where ``selection`` wants what only returns tell, which points have not;
    ``subject`` are the options that ask for points, with their verb."""
    if selection.request is not None and selection.request.needs_return:
        raise UsageError(
            f"{subject} no return, so neither retval nor duration is known",
            f"leave retval, duration and {option('errors')} out",
        )
