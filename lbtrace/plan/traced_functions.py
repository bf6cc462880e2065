"""Describes functions: their values, and how these are fetched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from lbtrace.abi.locations import OPTIMISED_OUT
from lbtrace.elf import debugfile, demangle, symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import UsageError
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.model import Function, Prototype, Site, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.plan import filled_buffers
from lbtrace.plan.compiler_quirks import FunctionBody, settle
from lbtrace.plan.formatted_values import with_formatted
from lbtrace.plan.known_names import SYSTEM
from lbtrace.plan.mismatches import Mismatches
from lbtrace.plan.passed_values import with_passed
from lbtrace.plan.read_arguments import count_read, with_more
from lbtrace.plan.value_selection import (
    REGISTER_ARGUMENTS,
    ValueSelection,
    depth,
    qualifies,
    select_values,
)
from lbtrace.plan.warnings import name_functions
from lbtrace.text import some

if TYPE_CHECKING:
    from lbtrace.plan.go.planner import GoPlan


MOST_READ = 5_000
"""Functions whose types are read from their names and their code: it takes 0.2 ms each."""

MOST_COUNTED = 2_000
"""Functions whose arguments are counted: it takes 0.1 to 0.7 ms each."""


def go_plan(image: Image, table: Symbols) -> GoPlan | None:
    """Return what knows the functions of Go in ``image``, if there are any."""
    if table.go is None:
        return None
    from lbtrace.plan.go.planner import GoPlan  # imported here because most programs are not Go

    return GoPlan(image, table.go)


class TracedFunction(NamedTuple):
    """A function with the values that are traced of it, and how they travel; what debug
    information says of it, if it is not Go's. ``site`` is where the arguments are read, if that is
    after the entry."""

    function: Function
    call_values: CallValues
    prototype: Prototype | None = None
    site: Site | None = None


ReadFloats: TypeAlias = Callable[[TracedFunction], TracedFunction]
"""What has floats of a function read where they can be, as far as they can."""


def _body(machine: Machine, image: Image, function: Function) -> FunctionBody:
    """The code of a function, for what compilers did to its parameters."""

    def beginning(size: int) -> Code:
        code = image.code(function.address, min(function.size, size))
        data = machine.find_mark_size(code)
        end = function.address + function.size
        return Code(code[data:], function.address + data, function.offset + data, end)

    return FunctionBody(machine, beginning, image.code)


def _selected(
    machine: Machine, prototype: Prototype | None, selection: ValueSelection
) -> CallValues | UsageError:
    """The selected values of a function, or why they are not its values."""
    try:
        return select_values(machine, prototype, selection)
    except UsageError as error:
        return error


def _undeclared(
    image: Image, machine: Machine, selection: ValueSelection, many: int
) -> Callable[[Function], CallValues | UsageError]:
    """What gives the selected values of functions of which nothing is declared: ``many`` are."""
    counts = selection.counted and many <= MOST_COUNTED
    shown_otherwise = selection.request is not None and selection.request.wanted

    @cache
    def select(count: int | None) -> CallValues | UsageError:
        if selection.args is not None:
            return _selected(machine, None, selection)
        values = _selected(machine, None, replace(selection, args=1 if count is None else count))
        is_whole = count is not None and count < REGISTER_ARGUMENTS
        if isinstance(values, UsageError) or shown_otherwise or is_whole:
            return values
        return with_more(values)

    return lambda function: select(count_read(_body(machine, image, function)) if counts else None)


def _read_later(
    machine: Machine,
    function: Function,
    prototype: Prototype,
    selection: ValueSelection,
    read_floats: ReadFloats,
) -> tuple[CallValues, Site | None] | None:
    """The selected values of a function of which a condition is about floats that cannot be read
    at the entry, if they can be further on, and where."""
    from lbtrace.expressions.tree import names_in  # imported here because most traces need none

    # What a register holds there is not known, if it is asked for by its name.
    if selection.request is None or names_in(selection.request) is None:
        return None
    plain = select_values(machine, prototype, replace(selection, request=None, args=None))
    try:
        found = read_floats(TracedFunction(function, plain, prototype))
    except UsageError:  # not all of them
        return None
    return None if found.call_values is plain else (found.call_values, found.site)


def _copied(functions: Sequence[Function], copied: Mapping[int, Sequence[str]]) -> list[str]:
    """Warnings about functions that are called, and were also inlined in some of the others."""
    names = {f.address: demangle.short(f.name) for f in functions}
    return [
        f"{names[address]} was also inlined at {len(within)} place{'s' * (len(within) > 1)}, in"
        f" {some([*dict.fromkeys(within)])} (lbtrace attach --inlined shows these)"
        for address, within in copied.items()
    ]


def _of_clone(
    name: str, function: Function, values: CallValues, selection: ValueSelection
) -> tuple[str, tuple[Value, ...]]:
    """The name of a function and the arguments that are shown: of such a copy, which its name is
    marked as, without those that it no longer takes, unless they are asked for."""
    clone = next(
        filter(None, map(demangle.MARKED.search, (function.name, *function.aliases))), None
    )
    if clone is None or selection.request is not None:
        return name, values.parameters
    shown = tuple(v for v in values.parameters if v.slot >= 0 or v.reason != OPTIMISED_OUT)
    marked = name if clone[0] in name else f"{name}{clone[0]}"
    return (name, shown) if len(shown) == len(values.parameters) else (marked, shown)


def _read_debug_information(
    image: Image, functions: Sequence[Function], selection: ValueSelection
) -> tuple[dict[int, Prototype], Mapping[int, tuple[str, ...]], list[str]]:
    """The prototypes that debug information gives, by address, the names of functions that the
    linker folded into one, and warnings."""
    debug = debugfile.find(image) if functions else None
    if debug is None:
        return {}, {}, []
    # Imported here because only debug information needs it.
    from lbtrace.dwarf import prototypes

    read = prototypes.prototypes(
        image,
        functions,
        depth(selection),
        debug,
        qualified=qualifies(selection),
        full_names=selection.full_names,
    )
    notes: list[str] = []
    if read.skipped:
        skipped = "1 function is" if read.skipped == 1 else f"{read.skipped:,} functions are"
        notes.append(
            f"{skipped} shown without types: there is too much debug information to read for all"
        )
    notes += [] if selection.inlined else _copied(functions, read.copied)
    notes += name_functions(read.missing, "not found, so the types of some functions are missing")
    return read.found, read.folded, notes


def _read_headers(
    image: Image,
    machine: Machine,
    functions: Sequence[Function],
    found: dict[int, Prototype],
) -> Collection[int]:
    """Add to the prototypes that were ``found`` what headers say of a known library. Return the
    addresses of the functions that only they declare."""
    library = image.once(Dynamic).library if functions else ""
    if not filled_buffers.KNOWN.match(library):
        return ()
    others = [f for f in functions if f.address not in found]
    # Imported here because most functions are of no such library.
    if not SYSTEM.match(library):
        from lbtrace.libc import other_libraries

        declared = other_libraries.prototypes(library, others)
        found |= declared
        return declared.keys()
    from lbtrace import libc

    declared = libc.prototypes(image, others, machine.name)
    found |= declared
    libc.name_constants(image, functions, found, machine.name)
    return declared.keys()


def _declares(function: Function) -> bool:
    """Whether a name of a function has the types of its parameters: C++ has them."""
    names = (function.name, *function.aliases)
    return any(n.startswith("_Z") and not demangle.LEGACY_RUST.match(n) for n in names)


def _read_names(
    image: Image,
    machine: Machine,
    functions: Sequence[Function],
    found: dict[int, Prototype],
    selection: ValueSelection,
) -> tuple[Collection[int], list[str]]:
    """Add to the prototypes that were ``found`` what mangled names tell. Return the addresses of
    the functions of which only they do, and notes."""
    others = [f for f in functions if f.address not in found and _declares(f)]
    if len(others) > MOST_READ:
        note = f"{len(others):,} functions are shown without the types that their names tell"
        return (), [f"{note}: there are more than {MOST_READ:,}"]
    if not others:
        return (), []
    # Imported here because most files have no such names.
    from lbtrace.mangled.prototypes import MangledNames
    from lbtrace.plan.compiler_quirks import unread

    names = MangledNames(image, machine, image.once(symbols.read).functions, depth(selection))
    told = names.find(others)
    if not names.by_gcc:
        bodies = {f.address: _body(machine, image, f) for f in others if f.address in told}
        settled = {at: unread.settle(told[at], body) for at, body in bodies.items()}
        told = {at: prototype for at, prototype in settled.items() if prototype}
    found |= told
    return told.keys(), []


def _with_more(
    image: Image,
    machine: Machine,
    function: Function,
    prototype: Prototype,
    values: CallValues,
    selection: ValueSelection,
) -> CallValues:
    """``values`` with what calls are passed and leave behind: those of functions of known
    libraries, where nothing else is asked for."""
    request = selection.request
    if selection.args == 0 or (request and (request.named or request.aggregates)):
        return values
    library = image.once(Dynamic).library
    if not filled_buffers.KNOWN.match(library):
        return values
    limit = selection.detail.limit
    values = with_passed(machine.name, function, prototype, values, limit)
    if selection.args is None:
        values = with_formatted(machine.name, function, prototype, values, limit)
    if not (request and request.errors):  # what failed has filled nothing
        values = filled_buffers.with_filled(machine.name, function, prototype, values, limit)
    if not SYSTEM.match(library):
        return values
    # Imported here because most functions are of no such library.
    from lbtrace.plan import error_numbers

    return error_numbers.with_errno(image, function, values)


def lacks_error(traced: TracedFunction) -> bool:
    """Return whether a result that would tell of an error cannot be read."""
    from lbtrace.expressions.failures import failed  # imported here: few ask for failed calls

    result = traced.call_values.result
    formal = traced.prototype.result if traced.prototype else None
    if result is None or result.slot >= 0 or formal is None:
        return False
    return failed(formal.type, throws=True) is not None


def describe(
    image: Image,
    machine: Machine,
    functions: Sequence[Function],
    selection: ValueSelection,
    go: GoPlan | None = None,
    read_floats: ReadFloats = lambda traced: traced,
) -> tuple[list[TracedFunction], list[str]]:
    """Return the values of each of ``functions``, and warnings about them.

    ``go`` knows the functions of Go, ``read_floats`` has floats read that are not at the entry.
    Functions that an expression of ``selection`` does not fit are left out, with a warning. Raises
    `UsageError` where it fits none.
    """
    mismatches = Mismatches()
    passed = go.describe(functions, selection, mismatches) if go else {}
    others = [f for f in functions if not (go and go.holds(f))]
    found, folded, notes = _read_debug_information(image, others, selection)
    by_headers = _read_headers(image, machine, others, found)
    by_names, left_out = _read_names(image, machine, others, found, selection)
    notes += left_out
    refused = () if image.has_debug_info else debugfile.search(image).refused
    for why in dict.fromkeys(each.why for each in refused):
        notes += name_functions(
            [each.path for each in refused if each.why == why], f"{why}, not used"
        )
    undeclared = _undeclared(image, machine, selection, len(others) - len(found))
    asked = selection.request is not None and bool(selection.request.wanted)
    traced: list[TracedFunction] = []
    for function in functions:
        prototype = found.get(function.address)
        if go and go.holds(function) and function.address not in passed:
            continue  # it is among the mismatches
        values: CallValues | UsageError
        if function.address in passed:
            values, typed = passed[function.address]
        elif prototype is None:
            values, typed = undeclared(function), asked
        else:
            typed = True
            if function.address not in by_headers and function.address not in by_names:
                prototype = settle(prototype, _body(machine, image, function))
            prototype = filled_buffers.mark(function, prototype)
            values = _selected(machine, prototype, selection)
            if not isinstance(values, UsageError):
                values = _with_more(image, machine, function, prototype, values, selection)
        site = None
        # What lacks a name lacks it further on as well.
        if isinstance(values, UsageError) and prototype is not None and values.understood.names:
            found_later = _read_later(machine, function, prototype, selection, read_floats)
            values, site = found_later or (values, None)
        if isinstance(values, UsageError):
            mismatches.add(function.name, values, declared=prototype is not None)
            continue
        names = folded.get(function.address, (function.name,))
        name, shown = _of_clone(" or ".join(names), function, values, selection)
        described = Function(
            name,
            function.address,
            function.size,
            function.offset,
            function.aliases,
            shown,
            values.result,
            typed,
            language="go" if go and go.holds(function) else "",
        )
        traced.append(TracedFunction(described, values, prototype, site))
    mismatches.check(len(traced))
    cut = [t.function.name for t in traced if t.call_values.cut]
    notes += [*mismatches.warnings()] + name_functions(
        cut, f"some arguments are not shown, as an event carries {FETCHES} values"
    )
    return traced, notes
