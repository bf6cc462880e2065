"""Plans of actions that aggregate in the kernel: which probes do so, and what they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lbtrace.errors import UsageError
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Probe
from lbtrace.model.plan import Grouping
from lbtrace.plan.selection import Selection
from lbtrace.tables import find_table


def narrow(selection: Selection) -> Selection:
    """Return the selection with what is needed to aggregate: no values besides those that are
    compared or aggregated, and no return if nothing is asked about it.

    Raises `UsageError` where ``arg`` does not name what the action takes.
    """
    request, action = selection.request, selection.action
    given = len(request.wanted) if request else 0
    takes_value = find_table(action).takes_value
    if request and request.columns and takes_value is not False:
        raise UsageError(
            "columns are about counted calls", 'leave them out, or count: action="count"'
        )
    if takes_value is None and given < 2:
        pass  # one is possible
    elif takes_value is not False:
        if given != 1:
            raise UsageError(f"action {action!r} takes one value", 'name it: arg="n"')
    elif given:
        raise UsageError("calls that are counted show no arguments", "leave arg out")
    returns = selection.returns if request and request.needs_return else "none"
    request = request and replace(request, aggregates=True)
    return replace(selection, args=0, returns=returns, request=request)


def bounding(probe: Probe) -> Probe:
    """Return the same probe, which only tells what happens below calls."""
    probe = replace(probe, fetches=(), conditions=(), keeps="", action="send")
    return replace(probe, aggregates=-1, grouping=None)


def aggregating(probe: Probe, action: str, grouping: Grouping | None) -> Probe:
    """Return the same probe, which does an action."""
    value = next(iter(grouping.measures), -1) if grouping else -1
    return replace(probe, action=action, aggregates=value, grouping=grouping)


def choose_probes(
    probes: Iterable[Probe], action: str, values: CallValues, *, at_return: bool = True
) -> Iterator[Probe]:
    """Yield the probes of a function that do an action: where its calls begin, or where they return
    if something is asked about that. Others, if there are any, tell what happens below its calls.
    """
    made = [probe for probe in probes if probe.role in ("opens", "closes", "tail", "point")]
    at_return &= any(probe.role in ("closes", "tail") for probe in made)
    for probe in made:
        if probe.role == "tail":
            yield probe
        elif probe.role == "closes" and not at_return:
            yield bounding(probe)
        elif probe.role == "closes" or not at_return:
            yield aggregating(probe, action, values.grouping)
        else:
            yield replace(probe, action="keep", grouping=values.entry_grouping)
