"""Plans probes at markers, which the authors of programs left for tracers (USDT)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import Marker, read_markers, unread
from lbtrace.errors import NoMatchError, option
from lbtrace.model import Function, Plan, Probe
from lbtrace.plan import marker_pairs
from lbtrace.plan.marker_definitions import mismatches
from lbtrace.plan.marker_values import marker_values
from lbtrace.plan.patterns import addressed, matching
from lbtrace.plan.point_probes import Point, PointPlan, PointPlanner, refuse_returns
from lbtrace.plan.selection import Selection
from lbtrace.plan.warnings import name_functions, some
from lbtrace.providers import UNDEFINED, Definitions, Pair, find_definitions

ALIKE = 3
"""Names that an error proposes."""

UNRAISED = "at a place of another marker: the kernel raises the counter of that one only"


class _Planned(NamedTuple):
    """A marker with its probe, and how many of the function's last parameters are only its key."""

    marker: Marker
    function: Function
    probe: Probe
    hidden: int


def add(plan: Plan, images: Sequence[Image], selection: Selection) -> Plan:
    """Return ``plan`` with probes at the markers that ``selection`` names.

    Raises `UsageError`, `NoMatchError`, `BinaryError`.
    """
    refuse_returns(selection, f"{option('usdt')} sees")
    found = find(images, selection.markers)
    definitions = known((m for markers in found for m in markers), selection.definitions)
    titles = {marker.title for markers in found for marker in markers}
    pairs, unpaired = marker_pairs.choose(definitions.pairs, titles, selection)
    result = PointPlan(plan)
    unraised: list[str] = []
    unfit: list[str] = []
    for binary, (image, markers) in enumerate(zip(images, found, strict=True)):
        if not markers:
            continue
        planner = PointPlanner(image, selection, by_default=True)
        planned = [*_planned(planner, image, markers, definitions, pairs, selection)]
        unfit += mismatches(markers, image.machine, selection.definitions)
        unraised += _unraised(each.marker for each in planned)
        left_out = {name for name, _ in planner.refused}
        whole = [p for p in pairs if not left_out & {p.opening, p.closing}]
        for each in planned:
            function, probe = marker_pairs.join(
                *(each.function, each.probe, each.hidden, whole, definitions)
            )
            place = str(each.marker.semaphore) if each.marker.semaphore else ""
            result.add(function, [replace(probe, source="marker", place=place)], binary)
        result.close_image(planner, binary)
    result.check_added("marker")
    return result.make(
        *(warning for image in images for warning in unread(image)),
        *dict.fromkeys(unfit),
        *name_functions(unpaired, marker_pairs.UNPAIRED),
        *name_functions(unraised, UNRAISED),
    )


def _unraised(markers: Iterable[Marker]) -> Iterator[str]:
    """The markers of an image at an address where another one's counter is raised."""
    raised: dict[int, int] = {}
    for marker in markers:
        counter = marker.semaphore
        if counter and raised.setdefault(marker.address, counter) != counter:
            yield marker.title


def known(markers: Iterable[Marker], own: Definitions | None = None) -> Definitions:
    """What is known of the providers of ``markers``, where the user's ``own`` definitions say
    nothing else."""
    found = UNDEFINED
    for provider in dict.fromkeys(marker.provider for marker in markers):
        defined = find_definitions(provider)
        if defined.markers:  # else nothing is copied: there may be any number of providers
            found = found.joined(defined)
    return found.joined(own) if own else found


def _planned(
    planner: PointPlanner,
    image: Image,
    markers: Iterable[Marker],
    definitions: Definitions,
    pairs: Sequence[Pair],
    selection: Selection,
) -> Iterator[_Planned]:
    for marker in markers:
        if marker.misplaced:
            planner.refuse(marker.title, marker.misplaced)
            continue
        values = tuple(marker_values(image, marker, definitions))
        shown, hidden = marker_pairs.values_of(marker.title, pairs, selection.values)
        made = planner.plan(Point(marker.title, marker.address, values, marked=True), shown)
        if made is not None:
            yield _Planned(marker, *made, hidden)


def find(images: Sequence[Image], patterns: Iterable[str]) -> list[list[Marker]]:
    """Return the markers of each image that any of ``patterns`` names: ``PROVIDER:NAME``, a glob
    or a regular expression of it. Raises `NoMatchError` where a pattern names none."""
    paths = [image.path for image in images]
    tables = [read_markers(image) for image in images]
    chosen: list[dict[Marker, None]] = [{} for _ in images]
    for pattern in patterns:
        meant, name = addressed(pattern, paths)
        count = 0
        for number in meant:
            titles = {marker.title for marker in tables[number]}
            wanted = set(matching(titles, [name], "usdt"))
            for marker in tables[number]:
                if marker.title in wanted:
                    chosen[number][marker] = None
                    count += 1
        if not count:
            raise _no_marker(name, [paths[n] for n in meant], [tables[n] for n in meant])
    return [list(markers) for markers in chosen]


def _no_marker(
    pattern: str, paths: Sequence[str], tables: Sequence[Sequence[Marker]]
) -> NoMatchError:
    titles = sorted({marker.title for table in tables for marker in table})
    named = " or ".join(paths)
    wanted, _, file = pattern.rpartition("@")
    if wanted and matching(titles, [wanted], "usdt"):
        return NoMatchError(
            f"{pattern}: no file that is traced is called {file}, but {named}",
            f"name one of them after the @, or add {option('binary', file)}",
        )
    if not titles:
        return NoMatchError(
            f"{named} has no markers (USDT)",
            f"name the file that has them with {option('binary')};"
            " lbtrace list --usdt --pid PID shows those of a process",
        )
    near = difflib.get_close_matches(pattern, titles, ALIKE, 0.4)
    providers = some(sorted({title.partition(":")[0] for title in titles}))
    return NoMatchError(
        f"{pattern}: matches no marker of {named}, whose providers are {providers}",
        f"nearest names: {', '.join(near)}" if near else "write PROVIDER:NAME, or PROVIDER:*",
    )
