"""Where calls of functions return to: behind the direct calls of them in their own file."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbol_table import Wanted
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Function, Site
from lbtrace.plan.direct_calls import find_direct_calls

MOST_PLACES = 1_000
"""To which a function may return: of one that is called from more, none is watched, as attaching to
them takes time."""

MOST_OF_STUBS, MOST_SINGLE = 50_000, 1_000
"""The same of all stubs together, whose calls hardly return elsewhere; where each probe has a link
of its own."""

MOST_FUNCTIONS = 1_000
"""Whose calls are looked for: of more, none is watched."""


def find_return_places(
    image: Image,
    stubs: Stubs,
    sites: ProbeSites,
    functions: Mapping[int, Function],
    avoids: Collection[int],
) -> dict[int, list[Site]]:
    """Return the sites at which calls of ``functions`` return, by the function's number: none where
    there are too many. Where no probe can be, there is none."""
    if not functions or len(functions) > MOST_FUNCTIONS:
        return {}
    numbers = {function.address: number for number, function in functions.items()}
    named = {name: n for n, f in functions.items() for name in (f.name, *f.aliases)}
    for address, name in stubs.wanted(Wanted(named)):
        if name in named:  # another one may have the name as well
            numbers.setdefault(address, named[name])
    most = {n: MOST_OF_STUBS if f.address in stubs else MOST_PLACES for n, f in functions.items()}
    calls = find_direct_calls(image, sites.machine, numbers, max(most.values()))
    found: dict[int, list[Site]] = {number: [] for number in functions}
    many = {numbers[at] for at, some in calls.items() if len(some) > most[numbers[at]]}
    # In order: the code of a function is followed once for all calls in it.
    for call in sorted(call for some in calls.values() for call in some):
        number = numbers[call.target]
        if number not in many and sites.continues_to(call.address, call.after):
            site = sites.at(call.after)
            if isinstance(site, Site) and call.after not in avoids:
                found[number].append(replace(site, sp_delta=-sites.machine.return_address_size))
    return {number: places for number, places in found.items() if places and number not in many}
