"""Plans probes at markers that may be in files which are loaded later."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import read_markers
from lbtrace.errors import UsageError, option
from lbtrace.machine import Machine
from lbtrace.model import Plan
from lbtrace.plan import markers, probe_sources
from lbtrace.plan.patterns import addressed, matching
from lbtrace.plan.planner import make_plan
from lbtrace.plan.point_probes import refuse_returns
from lbtrace.plan.selection import Selection

_ANY = re.compile(r"[:*?[]|^/.*/")
"""What is in all names of markers, and what may stand for that: a glob or a regular expression."""

ALIKE = 3
"""Names that a warning proposes."""


def make_ready(machine: str) -> None:
    """Import what the first plan for a file of this machine needs, which takes a tenth of a
    second, before such a plan is urgent."""
    markers.known(())
    processor = Machine(machine)
    processor.site_planner()
    processor.exit_finder()


def named_markers(image: Image, patterns: Sequence[str]) -> list[str]:
    """Return those of ``patterns`` that name markers of a file."""
    titles = {marker.title for marker in read_markers(image)}
    return [
        each for each in patterns if matching(titles, [addressed(each, [image.path])[1]], "usdt")
    ]


def only_markers(selection: Selection, names: Iterable[str]) -> Selection:
    """Return what ``selection`` asks for of a file of which only the markers ``names`` are
    traced."""
    code = dict.fromkeys(("patterns", "sources", "lines", "places", "within"), ())
    awaited = selection.markers
    return replace(
        selection, markers=tuple(names), awaited=awaited, locals=False, inlined=False, **code
    )


def plan_waiting(
    images: Sequence[Image], selection: Selection, marked: Sequence[Image] = ()
) -> Plan:
    """Plan the ``selection`` in ``images``, and only markers in ``marked``. The plan may grow.
    Patterns that name no marker of them wait for files that are loaded later. Raises `NoMatchError`
    for one that names a provider which is there without that marker, `UsageError` for one that can
    name no marker, and what `make_plan` raises."""
    _check(selection)
    every = [*images, *marked]
    titles = {marker.title for image in every for marker in read_markers(image)}
    providers = {title.partition(":")[0] for title in titles}
    waiting = [
        pattern
        for pattern in selection.markers
        if pattern.partition(":")[0] not in providers
        and not any(named_markers(image, [pattern]) for image in every)
    ]
    present = tuple(each for each in selection.markers if each not in waiting)
    selection = replace(selection, markers=present, awaited=selection.markers)
    plan = _plan_present(images, selection, marked)
    notes = tuple(_wait(pattern, titles) for pattern in waiting)
    return replace(plan, notes=(*plan.notes, *notes), may_grow=True, added_action=selection.action)


def _check(selection: Selection) -> None:
    """Raise `UsageError` for what is wrong whichever files are loaded later."""
    for pattern in selection.markers:
        _check_name(pattern)
    refuse_returns(selection, f"{option('usdt')} sees")
    if selection.aggregates:
        from lbtrace.plan import aggregation  # imported here because most plans send

        aggregation.narrow(selection)


def _plan_present(images: Sequence[Image], selection: Selection, marked: Sequence[Image]) -> Plan:
    """The plan for what is there at the start; ``selection`` has no markers but those."""
    points = selection.markers or selection.lines or selection.places
    if not points:
        selection = replace(selection, request=None)  # it is about markers
    if points or selection.patterns or selection.sources or selection.within:
        return make_plan(images, selection, marked)
    return probe_sources.empty(images)


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
