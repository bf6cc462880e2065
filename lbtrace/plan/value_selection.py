"""The values of a function that are shown, and what its probe fetches for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations, locate_values
from lbtrace.abi.dwarf_registers import program_counter
from lbtrace.abi.locations import Detail
from lbtrace.errors import UsageError, option
from lbtrace.fetch.call_values import SHALLOW, CallValues, plan_values
from lbtrace.machine import Machine
from lbtrace.model import UNKNOWN, Fetch, Formal, Prototype, Scalar, Value
from lbtrace.model.choices import Choices
from lbtrace.model.wire_limits import FETCHES
from lbtrace.values.pointer import TABLE

if TYPE_CHECKING:
    from lbtrace.dwarf.global_variables import GlobalVariables
    from lbtrace.elf.image import Image
    from lbtrace.expressions.tree import Request
    from lbtrace.fetch.lasting import Lasting

REGISTER_ARGUMENTS = 6
"""Arguments that expressions may name where debug information declares fewer."""


class ValueSelection(Struct, frozen=True):
    """What the user wants to see.

    ``args`` is the number of arguments shown; None means those of the
    prototype, or one without debug information. The first of them are ``skipped``, where another
    probe shows these. ``detail`` says how much is read of a value. A ``request`` has values to show
    instead, or a filter. ``full_names``: see `lbtrace.model.choices.Choices`.
    It is measured how long calls are ``off_cpu``. Copies that were ``inlined`` are shown, too.
    ``counted``: of functions without debug information those arguments that their code reads.
    """

    args: int | None = None
    detail: Detail = SHALLOW
    request: Request | None = None
    skipped: int = 0
    full_names: bool = False
    off_cpu: bool = False
    inlined: bool = False
    counted: bool = False
    globals: GlobalVariables | None = None


def parse_chosen(choices: Choices, where: str) -> Request | None:
    """Return what ``choices`` ask for, but with the condition ``where``. Raises `UsageError`."""
    return parse(choices.arg, where, errors=choices.errors, by=choices.by, columns=choices.columns)


def parse(
    arguments: Sequence[str],
    where: str,
    *,
    errors: bool = False,
    by: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Request | None:
    """Return what ``--arg``, ``--where``, ``--errors``, ``--by`` and columns ask for; None where
    they ask for nothing.

    Raises `UsageError` that points at the character that is wrong, or where two values have one
    name.
    """
    if not (arguments or where or errors or by or columns):
        return None
    from lbtrace.expressions import syntax  # imported here because most traces need none
    from lbtrace.expressions.tree import Request

    wanted = tuple(syntax.argument(source) for source in arguments)
    names: set[str] = set()
    for each in wanted:
        if each.name in names:
            raise UsageError(
                f"{option('arg', each.source)}: another value is called {each.name}, too",
                "give each a name of its own: key=node->key",
            )
        names.add(each.name)
    test = syntax.condition(where) if where else None
    request = Request(wanted, test, where, errors=errors)
    if not (by or columns):
        return request
    from lbtrace.expressions import grouping

    grouped, keys = grouping.parse_keys(by)
    shown, measured = grouping.parse_columns(columns)
    return replace(request, by=keys, grouped=grouped, columns=shown, measured=measured)


def select_values(
    machine: Machine,
    prototype: Prototype | None,
    selection: ValueSelection,
    places: Callable[[Prototype], Locations] | None = None,
    *,
    undeclared: bool = True,
    by_register: bool = False,
    finds_goroutine: bool = False,
    lasting: Lasting | None = None,
) -> CallValues:
    """Return how the selected values of a function are passed.

    ``places`` gives their locations when the probe is hit, if not those of the convention.
    ``undeclared``: it is a function, of which expressions may name arguments that are not
    declared, and the result. ``by_register``: they may name registers alone;
    ``finds_goroutine``: the goroutine. ``lasting`` are the arguments that are there when the call
    ends. Where
    one of them is a pointer to code, the entry reports where the code is mapped.

    Raises `UsageError` where an expression names what the function does not have.
    """
    places = places or partial(locate_values, machine.name)
    least = REGISTER_ARGUMENTS if undeclared else 0
    named = machine.registers, by_register, undeclared, finds_goroutine, selection.off_cpu
    call_values = _plan_values(prototype, selection, places, named, least, lasting)
    values = (*call_values.parameters, *([call_values.result] if call_values.result else ()))
    if any(map(leads_to_code, values)) and len(call_values.fetches) < FETCHES:
        here = Fetch(register=program_counter(machine.name))
        return replace(call_values, fetches=(*call_values.fetches, here))
    return call_values


def leads_to_code(value: Value) -> bool:
    """Return whether a value is or holds a pointer to a function, or to a table of those."""
    if (value.type.code or value.name == TABLE) and value.slot >= 0:
        return True
    return any(map(leads_to_code, value.members))


def _plan_values(
    prototype: Prototype | None,
    selection: ValueSelection,
    places: Callable[[Prototype], Locations],
    named: tuple[tuple[str, ...], bool, bool, bool, bool],
    least: int,
    lasting: Lasting | None,
) -> CallValues:
    if prototype is None:
        prototype = sized(Prototype((), long("")), 1 if selection.args is None else selection.args)
    declared, prototype = prototype, sized(prototype, selection.args)
    if declared.complete:
        least = 0
    shown = range(selection.skipped, len(prototype.parameters))
    if selection.request is None:
        located = places(prototype)
        prototype = replace(prototype, parameters=prototype.parameters[shown.start :])
        located = replace(located, parameters=located.parameters[shown.start :])
        return plan_values(prototype, located, FETCHES, selection.detail)
    from lbtrace.expressions import compile  # imported here because most traces need none
    from lbtrace.expressions.operands import Names

    wider = sized(declared, max(shown.stop, len(declared.parameters), least))
    return compile.bind(
        selection.request,
        wider,
        places(wider),
        shown,
        Names(*named, selection.globals, lasting),
        compile.Bounds(FETCHES, selection.detail),
    )


def of_image(selection: ValueSelection, image: Image) -> ValueSelection:
    """Return the same for the functions and points of an image, whose global variables expressions
    may name."""
    if selection.request is None or selection.globals is not None:
        return selection
    from lbtrace.dwarf.global_variables import GlobalVariables  # imported here: few name any

    found = GlobalVariables(image, depth(selection), full_names=selection.full_names)
    return replace(selection, globals=found)


def depth(selection: ValueSelection) -> int:
    """Return how many pointers are followed, at most."""
    if selection.request is None:
        return selection.detail.depth
    from lbtrace.expressions import compile

    return max(selection.detail.depth, compile.depth(selection.request))


def member_names(selection: ValueSelection) -> frozenset[str] | None:
    """Return the names of members that the expressions name; None where whole records are shown."""
    if selection.detail.depth:
        return None
    from lbtrace.expressions.tree import member_names

    return frozenset(member_names(selection.request))


def qualifies(selection: ValueSelection) -> bool:
    """Return whether an expression names a constant by the scope that it lies in."""
    if selection.request is None:
        return False
    from lbtrace.expressions.tree import qualifies

    return qualifies(selection.request)


def long(name: str) -> Formal:
    """Return what is assumed where nothing is declared."""
    return Formal(name, UNKNOWN, UNKNOWN.size, (Scalar(0, UNKNOWN.size, "integer"),))


def sized(prototype: Prototype, count: int | None) -> Prototype:
    """Return ``prototype`` with ``count`` parameters; those it does not declare are integers. What
    is complete has no others: a register for one would hold something else."""
    if count is None:
        return prototype
    if prototype.complete:
        count = min(count, len(prototype.parameters))
    extra = tuple(long(f"arg{n}") for n in range(len(prototype.parameters), count))
    return replace(prototype, parameters=(*prototype.parameters[:count], *extra))
