"""Planning: what is decided before the kernel is touched.

`make_plan` turns binaries and a `Selection` into a `Plan`, which is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf.image import Image, whole
from lbtrace.errors import LbtraceError, UsageError, option
from lbtrace.model import Function, Plan
from lbtrace.naming import NAMING
from lbtrace.plan import made_stacks
from lbtrace.plan.crossed_points import find_crossed
from lbtrace.plan.found import Item, Outer, add_items, find
from lbtrace.plan.functions import split_excluded, split_named
from lbtrace.plan.merge import distinct, empty, without_false_notes
from lbtrace.plan.selection import Selection

UNNAMED = {
    "inlined": ("inlined", True),
    "takes_own": ("own_functions", True),
    "within": ("within", True),
    "blocking": ("blocked_stacks", False),
}
"""Finders of what no option names, by what a `Selection` says then, and whether they are about
functions."""


class _Group(NamedTuple):
    """What finders have found, each, and what was selected: values are asked of those that are
    about functions apart from the others."""

    selection: Selection
    found: list[list[Item]]


def make_plan(
    binaries: str | Image | Sequence[str | Image],
    selection: Selection,
) -> Plan:
    """Return the plan for tracing ``selection`` of ``binaries``, paths or open images.

    A pattern ``NAME:PATTERN`` selects what an option names (`lbtrace.naming`), all others
    functions.

    Raises `BinaryError` if a file cannot be traced, `NoMatchError` if a
    pattern selects nothing in any, `UsageError` if the selection is too large.
    """
    several = [binaries] if isinstance(binaries, str | Image) else binaries
    images = distinct(b if isinstance(b, Image) else Image.open(b) for b in several)
    selection = _read(selection)
    with whole([*images, *selection.marked]):
        groups = [*_find(images, selection)]
        try:
            plan = _merge(images, groups)
        except UsageError as error:  # what is asked for may be about functions alone
            if not any(isinstance(each, Function) for items in groups[0].found for each in items):
                raise
            groups = [*_find(images, selection, of_functions=True)]
            try:
                plan = _merge(images, groups)
            except UsageError:
                raise error from None
        if crossed := find_crossed(plan):
            files = [each.file.identity for each in (*images, *selection.marked)]
            points = {files[binary]: addresses for binary, addresses in crossed.items()}
            around = (_Group(replace(of, points=points), found) for of, found in groups)
            plan = _merge(images, [*around])
    measured = selection.off_cpu and not selection.blocking
    if measured and (plan.functions or not selection.growth):
        from lbtrace.plan import off_cpu  # imported here because most plans measure none

        plan = off_cpu.add(plan, selection.off_cpu)
    nests = any(p.role == "opens" and p.binary >= 0 and not p.pair for p in plan.probes)
    if nests and not selection.aggregates:
        plan = made_stacks.add(plan, images, selection)
    if selection.growth != "later":
        return plan
    return replace(plan, may_grow=True, added_action=selection.action)


def _read(selection: Selection) -> Selection:
    """``selection`` with what patterns name by option. Raises `UsageError`."""
    if selection.aggregates:
        from lbtrace.plan import aggregation  # imported here because most plans send

        selection = aggregation.narrow(selection)
    wanted, excluded = split_excluded(selection.patterns, selection.exclude)
    read = split_named(wanted)
    every = {name: (*read.get(name, ()), *selection.named.get(name, ())) for name in NAMING}
    named = {name: patterns for name, patterns in every.items() if patterns}
    if selection.locals and not ("line" in named or "at" in named):
        raise UsageError(
            f"{option('locals')} is about lines and other places, and none is named",
            f"name some with {option('line')} or {option('at')}",
        )
    return replace(selection, patterns=(), named=named, exclude=excluded)


def _find(
    images: Sequence[Image], selection: Selection, *, of_functions: bool = False
) -> Iterator[_Group]:
    """What is selected of functions, then all else. Values are asked for and compared of all else,
    or ``of_functions``, where these come with others."""
    finders = {finder: of for name, (finder, of) in UNNAMED.items() if getattr(selection, name)}
    finders |= {NAMING[name].finder: NAMING[name].functions for name in selection.named}
    apart = not all(finders.values())
    for functions in (True, False):
        theirs = functions == of_functions
        asked = selection if theirs else selection.of_any_call(apart=apart)
        names = [finder for finder, of in finders.items() if of == functions]
        yield _Group(asked, [find(name, images, asked) for name in names])


def _merge(images: Sequence[Image], groups: Sequence[_Group]) -> Plan:
    """The plan for what was found. Raises `LbtraceError`: where what is asked for fits nothing of a
    group, or no probe can be there."""
    selection, found = groups[0]
    functions = [f for items in found for f in items if isinstance(f, Function | Outer)]
    plan = empty(images)
    if functions:
        from lbtrace.plan.function_plans import plan_functions  # here: a plan may be of no code

        plan = plan_functions(images, functions, selection)
    plan, before = replace(plan, binaries=plan.binaries + empty(selection.marked).binaries), 0
    for selection, found in groups:
        errors: list[LbtraceError] = []
        for items in found:
            plan = add_items(plan, images, selection, items, errors)
        if errors and len(plan.functions) == before:
            raise errors[0]
        before = len(plan.functions)
    if selection.where and functions:
        for (asked, _), calls in zip(groups, ("calls of functions", "other calls"), strict=True):
            if asked.request is None:
                what = f"{calls} are shown whether {selection.where} holds or not: it is not theirs"
                plan = replace(plan, notes=(*plan.notes, what))
    if plan.within:
        from lbtrace.plan import within  # imported here because most plans have none

        plan = within.warn_markers(plan)
    return without_false_notes(plan)
