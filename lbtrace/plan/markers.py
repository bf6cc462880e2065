"""Plans probes at markers, which the authors of programs left for tracers (USDT)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import Marker, read_markers, unread
from lbtrace.errors import ALIKE, NoMatchError, UsageError, option, propose
from lbtrace.machine import Machine
from lbtrace.model import Function, Probe
from lbtrace.plan import marker_pairs
from lbtrace.plan.found import Item, PlannedPoint
from lbtrace.plan.marker_definitions import mismatches
from lbtrace.plan.marker_values import marker_values
from lbtrace.plan.patterns import addressed, matching
from lbtrace.plan.point_probes import Point, PointPlanner, refuse_returns
from lbtrace.plan.selection import Selection
from lbtrace.plan.warnings import name_functions
from lbtrace.providers import (
    UNDEFINED,
    Definitions,
    Pair,
    find_definitions,
    open_definitions,
)
from lbtrace.text import some

_ANY = re.compile(r"[:*?[]|^/.*/")
"""What is in all names of markers, and what may stand for that: a glob or a regular expression."""

UNRAISED = "at a place of another marker: the kernel raises the counter of that one only"


def make_ready(machine: str) -> None:
    """Import what the first plan for a file of this machine needs, which takes a tenth of a
    second, before such a plan is urgent."""
    known(())
    processor = Machine(machine)
    processor.site_planner()
    processor.exit_finder()


class _Planned(NamedTuple):
    """A marker with its probe, and how many of the function's last parameters are only its key."""

    marker: Marker
    function: Function
    probe: Probe
    hidden: int


def find(images: Sequence[Image], selection: Selection) -> Iterator[Item]:
    """Yield the markers that ``selection`` names. Raises `UsageError`, `NoMatchError`, also for one
    of a provider that is there without that marker, where others may be loaded later."""
    refuse_returns(selection, f"{option('usdt')} sees")
    own = open_definitions(selection.providers) if selection.providers else None
    images = [*images, *selection.marked]
    wanted = selection.named["usdt"]
    waiting = _find_waiting(images, wanted, selection.growth) if selection.growth else []
    found = select(images, [each for each in wanted if each not in waiting])
    definitions = known((m for markers in found for m in markers), own)
    titles = {marker.title for markers in found for marker in markers}
    pairs, unpaired = marker_pairs.choose(definitions.pairs, titles, selection)
    unraised: list[str] = []
    unfit: list[str] = []
    for binary, (image, markers) in enumerate(zip(images, found, strict=True)):
        if not markers:
            continue
        planner = PointPlanner(image, binary, selection, "marker")
        planned = [*_planned(planner, image, markers, definitions, pairs, selection)]
        unfit += mismatches(markers, image.machine, own)
        unraised += _unraised(each.marker for each in planned)
        left_out = {name for name, _ in planner.refused}
        whole = [p for p in pairs if not left_out & {p.opening, p.closing}]
        for each in planned:
            function, probe = marker_pairs.join(
                *(each.function, each.probe, each.hidden, whole, definitions)
            )
            place = str(each.marker.semaphore) if each.marker.semaphore else ""
            yield PlannedPoint(function, (replace(probe, source="marker", place=place),))
        yield planner.report()
    yield from (warning for image in images for warning in unread(image) if titles)
    yield from dict.fromkeys(unfit)
    yield from name_functions(unpaired, marker_pairs.UNPAIRED)
    yield from name_functions(unraised, UNRAISED)
    if selection.growth == "later":
        yield from (_wait(pattern, titles) for pattern in waiting)


def _find_waiting(images: Sequence[Image], wanted: Sequence[str], growth: str) -> list[str]:
    """Those patterns that name no marker of ``images``, nor, at the start, a provider that is
    there. Raises `UsageError` for one that can name no marker in any file."""
    titles = {marker.title for image in images for marker in read_markers(image)}
    providers = {title.partition(":")[0] for title in titles}
    for pattern in wanted:
        _check_name(pattern)
    return [
        pattern
        for pattern in wanted
        if not any(is_named(image, [pattern]) for image in images)
        and (growth == "addition" or pattern.partition(":")[0] not in providers)
    ]


def is_named(image: Image, patterns: Iterable[str]) -> bool:
    """Return whether any of ``patterns`` names a marker of a file."""
    names = [addressed(each, [image.path])[1] for each in patterns]
    return bool(matching({marker.title for marker in read_markers(image)}, names, "usdt"))


def _check_name(pattern: str) -> None:
    """Raise `UsageError` where a pattern can name no marker in any file."""
    if not _ANY.search(pattern):
        name, at, file = pattern.partition("@")
        provider, marker = (
            option("usdt", f"'{each}{at}{file}'") for each in (f"{name}:*", f"*:{name}")
        )
        raise UsageError(
            f"{option('usdt')} {pattern}: is no name of a marker, which is PROVIDER:NAME",
            f"write {provider} for all markers of a provider, or {marker} for a name",
        )


def _wait(pattern: str, titles: Iterable[str]) -> str:
    near = difflib.get_close_matches(pattern, sorted(titles), ALIKE, 0.6)
    other = f" (it has {', '.join(near)})" if near else ""
    return (
        f"{pattern}: no file that is loaded so far has this marker{other}; lbtrace waits for one"
        " that is loaded later"
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
            yield _Planned(marker, made.function, made.probes[0], hidden)


def select(images: Sequence[Image], patterns: Iterable[str]) -> list[list[Marker]]:
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
    providers = some(sorted({title.partition(":")[0] for title in titles}))
    return NoMatchError(
        f"{pattern}: matches no marker of {named}, whose providers are {providers}",
        propose(pattern, titles, "write PROVIDER:NAME, or PROVIDER:*", 0.4),
    )
