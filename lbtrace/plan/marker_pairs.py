"""Which markers open and close calls (`lbtrace.calls.marker_pairs`), and by which values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lbtrace.model import Function, Probe, Value
from lbtrace.plan.patterns import matching
from lbtrace.plan.selection import Selection
from lbtrace.plan.value_selection import ValueSelection
from lbtrace.providers import Definitions, Pair
from lbtrace.values import join_results

UNPAIRED = "shown as points: the condition may hold at one marker of a pair only"

OF_ALL = frozenset({"pid", "tid", "comm", "true", "false", "NULL", "nullptr"})
"""Names in conditions that mean the same at all markers of a thread."""


def choose(
    pairs: Iterable[Pair], titles: set[str], selection: Selection
) -> tuple[list[Pair], list[str]]:
    """Return the pairs of which both markers are among ``titles``, or one is and the other one may
    come later, and which markers are points because a condition may hold at one of a pair only."""
    request = selection.request
    if selection.aggregates:
        return [], []
    pairs = list(pairs)
    whole = [pair for pair in pairs if {pair.opening, pair.closing} <= titles]
    if request is None or not request.wanted:  # else what a point shows depends on the other marker
        awaited = selection.named["usdt"] if selection.growth else ()
        whole += [pair for pair in pairs if _may_come(pair, titles, awaited)]
    if request is None or request.test is None:
        return whole, []
    from lbtrace.expressions.tree import names_in  # imported here because most traces need none

    names = names_in(request.test)
    fit = [pair for pair in whole if names is not None and names <= {*pair.by, *OF_ALL}]
    unfit = [pair for pair in whole if pair not in fit and {pair.opening, pair.closing} <= titles]
    return fit, [title for pair in unfit for title in (pair.opening, pair.closing)]


def _may_come(pair: Pair, titles: set[str], awaited: Sequence[str]) -> bool:
    """Whether one marker of a pair is among ``titles`` and the other one is awaited."""
    missing = {pair.opening, pair.closing} - titles
    names = [pattern.partition("@")[0] for pattern in awaited]
    return len(missing) == 1 and bool(matching(missing, names, "usdt"))


def values_of(
    title: str, pairs: Sequence[Pair], shown: ValueSelection
) -> tuple[ValueSelection, int]:
    """Return which values of a marker are fetched, and how many of the last ones are not shown: the
    key of a call whose values the user has chosen, and all values of its end."""
    request = shown.request
    if request is None or not request.wanted:
        return shown, 0
    if any(title == pair.closing for pair in pairs):
        return replace(shown, request=replace(request, wanted=())), 0
    pair = next((pair for pair in pairs if title == pair.opening), None)
    if pair is None:
        return shown, 0
    from lbtrace.expressions.tree import ArgExpression, Name

    key = [ArgExpression(name, name, Name(0, name)) for name in pair.by]
    return replace(shown, request=replace(request, wanted=(*request.wanted, *key))), len(key)


def join(
    function: Function,
    probe: Probe,
    hidden: int,
    pairs: Iterable[Pair],
    definitions: Definitions,
) -> tuple[Function, Probe]:
    """Return what a marker and its probe are as a part of one of ``pairs``, if there is one;
    ``hidden`` of the last parameters are not shown."""
    values = function.parameters
    if hidden:
        function = replace(function, parameters=values[:-hidden])
    pair = next((p for p in pairs if function.name in (p.opening, p.closing)), None)
    key = _named(values[-hidden:] if hidden else values, pair.by) if pair else None
    if pair is None or key is None:
        return function, probe
    probe = replace(probe, pair=pair.opening, key=key, nests=pair.nests)
    if function.name == pair.opening:
        opening = replace(function, returns=f"marker: {pair.closing}")
        return opening, replace(probe, role="opens")
    known = {each.name for way in definitions.markers[pair.opening] for each in way}
    result = _result([value for value in values if value.name not in known])
    return replace(function, result=result), replace(probe, role="closes")


def _named(values: Sequence[Value], names: Sequence[str]) -> tuple[Value, ...] | None:
    """The values of these names; None where one is not known."""
    found = {value.name: value for value in values if value.slot >= 0 or value.members}
    wanted = [found[name] for name in names if name in found]
    return tuple(wanted) if len(wanted) == len(names) else None


def _result(values: Sequence[Value]) -> Value | None:
    """What a closing marker tells besides what the opening one did: a result, or several."""
    if len(values) < 2:
        return values[0] if values else None
    return Value("", join_results(), values[0].slot, members=tuple(values))
