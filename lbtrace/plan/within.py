"""Functions below whose calls all that is recorded happens: ``--within`` (see
`lbtrace.plan.found.Finder`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.model import Function, Plan
from lbtrace.plan.binary_plan import TracedBinary
from lbtrace.plan.found import Outer
from lbtrace.plan.functions import find_named
from lbtrace.plan.made_stacks import find_maker
from lbtrace.plan.selection import Selection
from lbtrace.plan.warnings import name_functions
from lbtrace.probes import CLOSING, ROLES
from lbtrace.probes.sources import OTHERWISE
from lbtrace.text import some

UNSEEN = (
    "may be left unseen: what their callers call counts as below them until a call or return"
    " above shows that"
)
"""Said of functions some of whose exits may be unknown."""

TAILS = (
    "may end where they jump to another function (a tail call) whose return is not watched: what"
    " that does counts as outside"
)

OTHER_LANES = (
    "functions of Go belong to goroutines, those of other languages to threads: what one calls of"
    " the other counts as outside"
)

MARKERS = "markers belong to threads, functions of Go to goroutines: no marker is inside of these"


def find(images: Sequence[Image], selection: Selection) -> Iterator[Outer]:
    """Yield the functions below which all else is traced. Raises `UsageError`, `NoMatchError`."""
    for each in find_named(images, selection, "within", selection.within):
        if isinstance(each, Function):
            yield Outer(each)


def mark(plan: Plan, parts: Sequence[TracedBinary], selection: Selection) -> Plan:
    """Return ``plan`` with its outer functions marked. Raises `UsageError` where the program's
    stacks cannot be distinguished, `BinaryError` where no outer function can be traced."""
    outer = {
        number
        for number, function in enumerate(plan.functions)
        if function.address in parts[function.binary].outer
    }
    ended = {p.function for p in plan.probes if p.role in CLOSING}
    _check_traced(plan, parts, {n for n in outer if n in ended}, selection)
    _check_goroutines(plan)
    if maker := find_maker([part.image for part in parts], selection):
        raise UsageError(
            f"{maker} may set up several stacks in one mapping, which the kernel does not"
            " distinguish, so what happens below a call is not known",
            f"leave {option('within')} out",
        )
    joined = _find_joined(plan, outer)
    probes = tuple(
        replace(p, gate=p.function in outer, joins=p.function in joined)
        if p.role == "opens" or p.role in CLOSING
        else p
        for p in plan.probes
    )
    notes = (*plan.notes, *_warnings(plan, outer))
    return replace(plan, probes=probes, notes=notes, within=selection.within)


def _find_joined(plan: Plan, outer: set[int]) -> set[int]:
    """The functions to which outer ones may jump, or those to which these do."""
    leads: dict[int, set[tuple[int, str]]] = {}
    for probe in plan.probes:
        if probe.goes_on:
            leads.setdefault(probe.function, set()).add((probe.binary, probe.leads_to))
    numbers: dict[tuple[int, str], list[int]] = {}
    for number, function in enumerate(plan.functions):
        numbers.setdefault((function.binary, function.name), []).append(number)
    found, ways = set(outer), list(outer)
    while ways:
        further = {n for each in leads.get(ways.pop(), ()) for n in numbers.get(each, ())} - found
        found |= further
        ways += further
    return found - outer


def warn_markers(plan: Plan) -> Plan:
    """Return a plan with markers, which says where these are inside of no outer function."""
    gates = {plan.goroutines(probe) is None for probe in plan.probes if probe.gate}
    if False in gates and any(
        probe.source == "marker" and plan.goroutines(probe) is None for probe in plan.probes
    ):
        return replace(plan, notes=(*plan.notes, MARKERS))
    return plan


def _check_traced(
    plan: Plan, parts: Sequence[TracedBinary], traced: set[int], selection: Selection
) -> None:
    """That the ends of all outer functions are seen, or else nothing is known below them."""
    known = {(plan.functions[n].binary, plan.functions[n].address) for n in traced}
    missing = [
        function.name
        for binary, part in enumerate(parts)
        for function in part.functions
        if function.address in part.outer and (binary, function.address) not in known
    ]
    if not missing:
        return
    hint = f"name another function with {option('within')}"
    if selection.returns == "uretprobe":
        hint = f"leave {option('returns')} out"
    raise BinaryError(f"{some(missing)}: where calls begin and end is not seen", hint)


def _check_goroutines(plan: Plan) -> None:
    """That the kernel can tell the goroutines of what is traced."""
    for probe in plan.probes:
        function = plan.functions[probe.function] if probe.role == "opens" else None
        if function and function.language == "go" and plan.goroutines(probe) is None:
            raise UsageError(
                f"{function.name}: goroutines cannot be distinguished in this program,"
                " so what happens below a call is not known",
                f"leave {option('within')} out",
            )


def _warnings(plan: Plan, outer: Iterable[int]) -> list[str]:
    functions = [plan.functions[number] for number in outer]
    notes = name_functions([f.name for f in functions if f.exits_hidden], UNSEEN)
    unseen = [p for p in plan.probes if p.role == "tail" and not p.goes_on]
    tails = {p.function for p in unseen if p.source != OTHERWISE}
    notes += name_functions([plan.functions[n].name for n in sorted(tails & set(outer))], TAILS)
    lanes = {
        plan.goroutines(probe) is None for probe in plan.probes if ROLES[probe.role].of_function
    }
    return [*notes, OTHER_LANES] if len(lanes) > 1 else notes
