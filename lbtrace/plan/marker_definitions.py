"""What to say of the user's definitions of markers that do not fit those of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lbtrace.abi.marker_operands import count_operands
from lbtrace.elf.stap_notes import Marker
from lbtrace.plan.warnings import name_functions
from lbtrace.providers import Definitions, choose


def mismatches(markers: Iterable[Marker], machine: str, own: Definitions | None) -> list[str]:
    """Return warnings on markers of a file of that ``machine`` that have other numbers of arguments
    than the user's ``own`` definitions say, and on pairs by arguments that are unknown for
    that. Definitions that come with lbtrace are of several versions, and give no warnings."""
    if own is None:
        return []
    named: dict[str, list[str]] = {}
    unfit: set[str] = set()
    titles: set[str] = set()
    for marker in markers:
        titles.add(marker.title)
        defined = own.markers.get(marker.title)
        count = count_operands(machine, marker.arguments)
        if defined is None or len(choose(defined, count)) == count:
            continue
        unfit.add(marker.title)
        there = named.setdefault(_describe(count, sorted({len(each) for each in defined})), [])
        if marker.title not in there:
            there.append(marker.title)
    warnings = [each for what, names in named.items() for each in name_functions(names, what)]
    return [*warnings, *_unpaired(own, titles, unfit)]


def _describe(count: int, defined: Sequence[int]) -> str:
    ways = " or ".join(map(str, defined))
    noun = "argument" if defined == [1] else "arguments"
    return f"defined with {ways} {noun}, but the note has {count}: shown without their names"


def _unpaired(own: Definitions, titles: set[str], unfit: set[str]) -> Iterator[str]:
    for pair in own.pairs:
        ends = {pair.opening, pair.closing}
        if pair.by and ends <= titles and ends & unfit:
            by = " and ".join(pair.by)
            what = f"no pair, as the values of {by} are unknown"
            yield from name_functions([pair.opening, pair.closing], what)
