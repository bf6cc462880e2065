"""Plans probes that stand at a place inside of functions: source lines, and any instruction."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.locations import Location
from lbtrace.dwarf.lines import LAST, SourceLines
from lbtrace.dwarf.scopes import Variable
from lbtrace.dwarf.sources import path_test
from lbtrace.elf import symbols
from lbtrace.elf.image import PT_LOAD, Image
from lbtrace.errors import BinaryError, LbtraceError, NoMatchError, UsageError, option
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import Function, Plan, Probe, Prototype, Site
from lbtrace.model.wire_limits import FETCHES
from lbtrace.plan.patterns import addressed
from lbtrace.plan.placement import Placer
from lbtrace.plan.remarks import name_functions
from lbtrace.plan.selection import Selection
from lbtrace.plan.source_files import nearest_paths
from lbtrace.plan.value_selection import ValueSelection, depth, select_values
from lbtrace.system.lookups import note

LINES = re.compile(r"(?P<file>.+):(?P<first>\d{1,9})(-(?P<last>\d{1,9}))?")
OFFSET = re.compile(r"(?P<file>.+):(0x(?P<offset>[0-9a-fA-F]{1,16})|(?P<decimal>\d{1,18}))")

REFUSED = "left out because no instruction is known to begin there, or a probe on it could do harm"


UNFIT = "left out at some places, where a value that was asked for is not known"


class Point(NamedTuple):
    """A place to probe: its ``name``, the ``address``, and the ``variables`` in scope there.
    ``marked``: it is a marker."""

    name: str
    address: int
    variables: tuple[Variable, ...] = ()
    marked: bool = False


def add(plan: Plan, images: Sequence[Image], selection: Selection) -> Plan:
    """``plan`` with probes at the lines and places that ``selection`` has.

    Raises `UsageError`, `NoMatchError`, `BinaryError`.
    """
    request = selection.request
    if request is not None and request.needs_return:
        raise UsageError(
            f"{option('line')} and {option('at')} see no return, so neither retval nor duration"
            " is known",
            "leave retval and duration out",
        )
    finder = _Finder(images, selection)
    for text in selection.lines:
        finder.add_lines(text)
    for text in selection.places:
        finder.add_place(text)
    functions, probes, notes = list(plan.functions), list(plan.probes), list(plan.notes)
    refused: list[str] = []
    errors: list[UsageError] = []
    for binary, (image, points) in enumerate(zip(images, finder.found, strict=True)):
        if not points:
            continue
        planner = PointPlanner(image, selection)
        for point in points.values():
            made = planner.plan(point)
            if made is None:
                continue
            function, probe = made
            probes.append(replace(probe, function=len(functions), binary=binary))
            functions.append(replace(function, binary=binary))
        notes += planner.remarks()
        refused += planner.refused
        errors += [planner.error] if planner.error else []
    if len(functions) == len(plan.functions):
        if errors:
            raise errors[0]
        raise BinaryError(
            f"{', '.join(dict.fromkeys(refused))}: {REFUSED.removeprefix('left out because ')}",
            "choose another place",
        )
    notes += name_functions(list(dict.fromkeys(refused)), REFUSED)
    return replace(plan, functions=tuple(functions), probes=tuple(probes), notes=tuple(notes))


class PointPlanner:
    """Plans the points of an image."""

    def __init__(self, image: Image, selection: Selection) -> None:
        table = image.once(symbols.read)
        patched = selection.patched.get(image.file.identity, ())
        self._image = image
        self._machine = Machine(image.machine)
        self._sites = Placer(image, table, self._machine, patched=patched).sites
        self._selection = selection
        self.cut: list[str] = []
        self.refused: list[str] = []
        self.unfit: list[str] = []
        self.error: UsageError | None = None

    def remarks(self) -> list[str]:
        """Return what to say of the points that were planned."""
        cut = f"not shown with all values: an event carries {FETCHES} of them"
        return [*name_functions(self.cut, cut), *name_functions(self.unfit, UNFIT)]

    def plan(
        self, point: Point, shown: ValueSelection | None = None
    ) -> tuple[Function, Probe] | None:
        """What is shown of a point, and its probe; None where there can be none. ``shown``: other
        values than those selected."""
        find = self._sites.marked if point.marked else self._sites.at
        site = find(point.address)
        if site is None:
            self.refused.append(point.name)
            return None
        site = Site(site.address, site.offset, 0, site.displaced, site.emulated)
        try:
            values = self._values(point, shown or self._selection.values)
        except UsageError as error:  # it may fit another place of the line
            self.unfit.append(point.name)
            self.error = self.error or error
            return None
        if values.cut:
            self.cut.append(point.name)
        function = Function(
            point.name,
            point.address,
            0,
            site.offset,
            parameters=values.parameters,
            typed=True,
            returns="none",
        )
        action = self._selection.action if self._selection.gathers else "send"
        probe = Probe(
            site, "point", fetches=values.fetches, conditions=values.conditions, action=action
        )
        return function, probe

    def _values(self, point: Point, chosen: ValueSelection) -> CallValues:
        if chosen.request is None or not chosen.request.wanted:
            shown = len(point.variables) if self._selection.locals else 0
            chosen = replace(chosen, args=shown)
        formals = tuple(variable.formal for variable in point.variables)
        located = tuple(variable.location for variable in point.variables)

        def places(prototype: Prototype) -> Locations:
            return Locations(located[: len(prototype.parameters)], Location())

        return select_values(self._machine, Prototype(formals), chosen, places, undeclared=False)


class _Finder:
    """Finds the points that a selection names: ``found`` has those of each image."""

    def __init__(self, images: Sequence[Image], selection: Selection) -> None:
        self._images = images
        self._paths = [image.path for image in images]
        self._selection = selection
        self._shows = selection.request is not None or selection.locals
        self._known: dict[int, SourceLines] = {}
        self.found: list[dict[tuple[str, int], Point]] = [{} for _ in images]

    def _source_lines(self, number: int) -> SourceLines:
        """The lines of an image. Raises `BinaryError` where they are not known."""
        if number not in self._known:
            followed = depth(self._selection.values)
            self._known[number] = SourceLines(self._images[number], followed)
        return self._known[number]

    def add_lines(self, text: str) -> None:
        """Add the places of the lines that ``text`` names."""
        meant, name = addressed(text, self._paths)
        file, first, last = read_lines(name)
        errors: list[LbtraceError] = []
        around: list[SourceLines] = []
        count = 0
        for number in meant:
            try:
                lines = self._source_lines(number)
            except BinaryError as error:
                errors.append(error)
                continue
            around.append(lines)
            for place in lines.places(path_test(file), first, last):
                count += 1
                title = f"{os.path.basename(place.path)}:{place.line}"
                self._add(number, title, place.address, place.unit, place.view)
        if not count and len(errors) == len(meant):
            raise errors[0]
        if not count:
            raise _no_line(name, file, first, [self._paths[n] for n in meant], around)

    def add_place(self, text: str) -> None:
        """Add the place that ``FILE:OFFSET`` names, an offset in the file."""
        read = OFFSET.fullmatch(text)
        if read is None:
            raise UsageError(
                f"{option('at')} {text}: is no place in a file",
                "write FILE:OFFSET, as in ./prog:0x1149",
            )
        offset = int(read["offset"], 16) if read["offset"] else int(read["decimal"])
        number = next((n for n, p in enumerate(self._paths) if _is_file(p, read["file"])), -1)
        if number < 0:
            raise NoMatchError(
                f"{text}: none of the traced files is called so",
                f"add {option('binary', read['file'])}",
            )
        image = self._images[number]
        address = _address(image, offset)
        if address is None:
            raise NoMatchError(
                f"{text}: there is no code", "give the offset of an instruction in the file"
            )
        unit = None
        if self._shows:
            with suppress(BinaryError):  # registers are known without debug information
                unit = self._source_lines(number).unit_of(address)
        self._add(number, f"{os.path.basename(image.path)}:{offset:#x}", address, unit)

    def _add(self, number: int, title: str, address: int, unit: int | None, view: int = -1) -> None:
        variables: Sequence[Variable] = ()
        if self._shows and unit is not None:
            variables = self._source_lines(number).variables(unit, address, view)
        self.found[number][title, address] = Point(title, address, tuple(variables))


def read_lines(text: str) -> tuple[str, int, int]:
    """The file, and the first and last line, that ``FILE:LINE``, ``FILE:FIRST-LAST`` and ``FILE:*``
    name. Raises `UsageError`."""
    if text.endswith(":*"):
        return text[:-2], 1, LAST
    read = LINES.fullmatch(text)
    if read is None:
        raise UsageError(
            f"{option('line')} {text}: is no line of a file", "write FILE:LINE, as in server.c:312"
        )
    first = int(read["first"])
    return read["file"], first, int(read["last"] or first)


def _no_line(
    text: str,
    file: str,
    line: int,
    paths: Sequence[str],
    around: Sequence[SourceLines],
) -> NoMatchError:
    named = " or ".join(paths)
    known = sorted({n for lines in around for n in lines.numbers(path_test(file)) if n})
    if known:
        near = sorted(sorted(known, key=lambda each: abs(each - line))[:4])
        return NoMatchError(
            f"{text}: this line of {named} has no code",
            f"the nearest lines with code: {', '.join(map(str, near))}",
        )
    all_paths = {path for lines in around for path in lines.paths}
    near_paths = nearest_paths(all_paths, file)
    return NoMatchError(
        f"{file}: is no source file of {named}",
        f"nearest names: {', '.join(near_paths)}" if near_paths else "lbtrace list shows functions",
    )


def file_of(text: str) -> str:
    """The file that ``FILE:OFFSET`` names; empty where it names none."""
    read = OFFSET.fullmatch(text)
    return read["file"] if read else ""


def _is_file(path: str, name: str) -> bool:
    if path == name or path.endswith(f"/{name}"):
        return True
    note(path)
    note(name)
    try:
        return os.path.samefile(path, name)
    except OSError:
        return False


def _address(image: Image, offset: int) -> int | None:
    """The virtual address of the code at ``offset`` of the file."""
    for segment in image.executable_segments:
        if segment.type == PT_LOAD and 0 <= offset - segment.offset < segment.size:
            return segment.address + offset - segment.offset
    return None
