"""What an event shows of the values of Go functions, and how they are fetched."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lbtrace.abi.go import HIDDEN, Assignment, GoConvention, locate, placed
from lbtrace.abi.locations import Detail, Location, moved
from lbtrace.fetch.call_values import SHALLOW, CallValues
from lbtrace.model import Fetch, Formal, Prototype, Type, Value
from lbtrace.recognize.fetcher import Fetcher, compose
from lbtrace.recognize.sharing import collected
from lbtrace.values import join_results


def plan_values(
    prototype: Prototype,
    convention: GoConvention,
    limit: int,
    detail: Detail = SHALLOW,
    *,
    shown: int | None = None,
) -> CallValues:
    """Return how these values travel; at most ``limit`` slots an event.

    Of the parameters the first ``shown`` are shown. Several results become a
    record without a name.
    """
    parameters, results = prototype.parameters, prototype.results
    given, returned = placed(prototype, convention)
    declared = [(f, p) for f, p in zip(parameters, given, strict=True) if f.name not in HIDDEN]
    values, entry = _values(declared[:shown], limit, detail)
    outcomes, leaving = _values(list(zip(results, returned, strict=True)), limit, detail)
    result: Value | None = None
    if len(outcomes) == 1:
        result = replace(outcomes[0], name="")
    elif outcomes:
        result = replace(compose("", join_results(), outcomes), members=tuple(outcomes))
    return CallValues(values, result, entry.fetches, leaving.fetches, entry.cut)


def as_declared(result: Value | None, prototype: Prototype) -> Value | None:
    """Return the ``result`` of a function without the names that expressions have for several."""
    made = [f"r{number}" for number in range(len(prototype.results))]
    if result is None or result.name or [member.name for member in result.members] != made:
        return result
    named = zip(result.members, prototype.results, strict=True)
    return replace(result, members=tuple(replace(m, name=f.name) for m, f in named))


def _values(
    formals: Sequence[tuple[Formal, Assignment]], limit: int, detail: Detail
) -> tuple[tuple[Value, ...], Fetcher]:
    return collected(
        limit,
        detail,
        lambda fetcher: tuple(_value(fetcher, f, p) for f, p in formals),
    )


def _value(fetcher: Fetcher, formal: Formal, assigned: Assignment) -> Value:
    place = locate(formal, assigned)
    if place.memory is None:
        return fetcher.value(formal.name, formal.type, place)
    return in_memory(fetcher, formal.name, formal.type, place.memory)


def in_memory(fetcher: Fetcher, name: str, type: Type, memory: Fetch) -> Value:
    """Return a value at an address in memory; a struct that holds more than numbers by its
    members."""
    parts = None if type.is_flat() else type.components()
    if not parts:
        return fetcher.value(name, type, Location(memory=memory))
    members = [in_memory(fetcher, m.name, m.type, moved(memory, m.offset)) for m in parts]
    return compose(name, type, members)
