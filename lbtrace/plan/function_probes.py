"""The probes of one function."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lbtrace.fetch.call_values import CallValues
from lbtrace.machine.code import Exits
from lbtrace.model import Function, Probe, Site
from lbtrace.plan.return_sites import return_sites
from lbtrace.plan.return_strategy import ReturnStrategy


def make_probes(
    number: int,
    function: Function,
    strategy: ReturnStrategy,
    call_values: CallValues,
    entry: Site,
    exits: Exits,
) -> Iterator[Probe]:
    """Yield the probes of a function: one that opens its calls, and those that close them."""
    hooked = strategy.kind == "uretprobe"
    keeps = call_values.kept if hooked or exits.exits else ""
    yield Probe(
        entry,
        "opens",
        number,
        fetches=call_values.fetches,
        conditions=call_values.conditions,
        action="keep" if call_values.result_conditions else "send",
        shows_left=call_values.shows_left,
        keeps=keeps,
    )
    closes = Probe(
        entry,
        "closes",
        number,
        fetches=call_values.result_fetches,
        conditions=call_values.result_conditions,
        keeps=keeps,
    )
    if hooked:
        yield replace(closes, source="uretprobe")
    for exit in exits.exits:
        if exit.kind == "return":
            sites = return_sites(exit, call_values.result_fetches, function.address, entry)
            for site, fetches in sites:
                yield replace(closes, site=site, fetches=fetches)
        else:
            yield Probe(exit.site, "tail", number, keeps=keeps)
