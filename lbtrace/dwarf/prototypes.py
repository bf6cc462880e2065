"""Parameters and results of functions, from DWARF 2 to 5.

Only the compilation units that hold a wanted function are read, each once, and
in a unit only the entries on the way to the functions and what these refer to.
Whatever is damaged or not understood counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache as cache_of
from functools import partial
from itertools import islice, repeat
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lbtrace.abi import find_convention
from lbtrace.abi.locations import CHANGED, LEFT_OUT, OPTIMISED_OUT, lose_unless_named
from lbtrace.dwarf import attributes, inlined_in_part
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.declared_numbers import declares_all, leaves_out
from lbtrace.dwarf.folded import agree, may_be_folded
from lbtrace.dwarf.lost_locations import may_be_lost
from lbtrace.dwarf.parameters import Callers, moves, read_parameter
from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader import bounds, lists
from lbtrace.dwarf.reader.bounds import BudgetExceeded
from lbtrace.dwarf.reader.companions import Companions
from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.index import find_all_units, find_units
from lbtrace.dwarf.unmade_objects import without_class
from lbtrace.elf import debugfile
from lbtrace.elf.debug_sections import Sections
from lbtrace.elf.image import Image
from lbtrace.files import cache
from lbtrace.model import VOID, ConventionHints, Formal, Function, Prototype

DW_CC_NOCALL = 3

VARIABLES = frozenset({"DW_TAG_variable", "DW_TAG_formal_parameter"})
SCOPES = frozenset({"DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"})

SAMPLE = 500
"""Functions of a unit that are looked at to see whether it was optimised."""

ALL_CALLS = ("DW_AT_call_all_calls", "DW_AT_GNU_all_call_sites")
"""What clang says of optimised functions."""

CLONE = re.compile(r"\.(isra|constprop|part)\b")
"""Names of copies for which gcc changed what is passed; LLVM does so without renaming."""

COROUTINE = re.compile(r"\.(resume|destroy|cleanup)\b")
"""Names of the parts into which LLVM splits a coroutine (CoroSplit.cpp). They take the address of
its frame and return nothing, and have a copy of the coroutine's own description."""

RETURNS_LESS = re.compile(r"\.isra\b")
"""Clones whose return value the compiler may have removed because no caller used it."""


class Prototypes(Struct):
    """The prototypes found, by address of the function. ``skipped`` counts the
    functions whose units were left unread to stay within their `Budget`; ``missing``
    are the files that hold the types of others and were not found. ``folded`` has the names of
    those that a linker made one of, ``copied`` the functions in which some were inlined."""

    found: dict[int, Prototype]
    skipped: int = 0
    folded: dict[int, tuple[str, ...]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    copied: dict[int, tuple[str, ...]] = field(default_factory=dict)


def prototypes(
    image: Image,
    functions: Sequence[Function],
    depth: int = 0,
    debug: debugfile.Found | None = None,
    *,
    qualified: bool = False,
    full_names: bool = False,
) -> Prototypes:
    """Return the prototypes of ``functions``, as far as debug information has them.

    What pointers lead to is looked into ``depth`` pointers deep. ``debug`` is
    what `debugfile.find` found, if that was asked before. ``qualified``: expressions name
    constants of enumerations by their scopes. ``full_names``: types are not called as people write
    them.

    Raises nothing: a function that damaged debug information hides is missing.
    """
    result = Prototypes({})
    debug = debug or debugfile.find(image)
    if debug is None:
        return result
    wanted = {f.address: f for f in functions}
    budget = bounds.for_size(len(debug.data))
    held: dict[int, list[int]] = {}
    typed = partial(
        Types, depth=depth, machine=image.machine, qualified=qualified, full_names=full_names
    )
    try:
        companions = Companions(image.path, debug.path, debugfile.ROOT, budget)
        kept = cache.of(debug.status)
        file = companions.open(Sections(debug.data, kept))
        for address, holder in find_units(file, sorted(wanted)).items():
            held.setdefault(holder, []).append(address)
    except Exception:  # damaged DWARF raises nearly anything
        return result
    for offset, addresses in held.items():
        try:
            unit = companions.whole(file.unit_at(offset))
            types = typed(unit.root)
            if types.rust:  # in other languages each function says so itself
                types.optimised = cache_of(partial(_is_optimised, unit, types))
            _read_unit(unit, {a: wanted[a] for a in addresses}, result.found, types)
            if len(functions) <= inlined_in_part.FEW:
                result.copied |= inlined_in_part.find(unit, addresses)
        except BudgetExceeded:
            result.skipped += len([a for a in addresses if a not in result.found])
        except Exception:  # as above: this unit is damaged, the next may not be
            continue

    def read(offset: int, function: Function) -> Iterator[tuple[Any, Prototype]]:
        unit = companions.whole(file.unit_at(offset))
        types = typed(unit.root)
        for die in unit.functions(None):
            if lists.entry_address(die) == function.address and _is_typed(die, types):
                yield die, _prototype(die, function, types)

    for function in filter(may_be_folded, functions):
        with suppress(Exception):  # as above
            units = find_all_units(file, function.address)
            each = [pair for offset in units for pair in read(offset, function)]
            if (unfolded := agree(function, each)) is not None:
                result.folded[function.address], result.found[function.address] = unfolded
    result.missing = list(companions.missing)
    return result


def _read_unit(
    unit: Unit, wanted: dict[int, Function], found: dict[int, Prototype], types: Types
) -> None:
    """Adds the prototypes of ``wanted``, by address."""
    for opened in (attributes.NAMESPACES, None):
        for die in unit.functions(opened):
            address = lists.entry_address(die)
            if address not in wanted:
                continue
            function = wanted.pop(address)
            try:
                if _is_typed(die, types):
                    found[address] = _prototype(die, function, types)
            except BudgetExceeded:
                raise
            except Exception:  # damaged: this function falls back to the convention
                continue
            if not wanted:
                return


def _is_typed(die: Any, types: Types) -> bool:
    """Whether debug information describes what a function takes and returns. If it names neither,
    the function may have neither, or the compiler was asked for lines and names only (``-g1``,
    ``-gline-tables-only``, rustc's ``-Cdebuginfo=1``), as assemblers always are."""
    chain = origins(die)
    if types.assembly:
        return False
    if any("DW_AT_type" in d.attributes or _formals(d) for d in chain):
        return True
    # LLVM leaves out both of these as well, where it leaves out types
    # (``DwarfUnit::applySubprogramAttributes``), and gcc the first.
    signs = ("DW_AT_prototyped", "DW_AT_external") if types.llvm else ("DW_AT_prototyped",)
    if any(name in d.attributes for d in chain for name in signs):
        return True
    return types.has_any(chain[-1].unit)


def _prototype(die: Any, function: Function, types: Types) -> Prototype:
    chain = origins(die)
    names = " ".join((function.name, *function.aliases))
    hints = types.hints(_convention_code(chain))
    formals = _pair_formals(die, chain)
    callers = _find_callers(chain, formals, function, names, hints, types)
    if types.rust and _is_unchanged(die, formals, types):
        callers = callers._replace(known=False)
    parameters = tuple(
        read_parameter(d, own, die, function.address, callers, types) for d, own in formals
    )
    parameters = without_class(chain, parameters)
    if types.llvm and COROUTINE.search(names):
        parameters = tuple(replace(p, missing_reason=OPTIMISED_OUT) for p in parameters)
        return Prototype(parameters, Formal("", VOID, 0), hints=hints)
    changed = _is_changed(chain) or (types.llvm and any(p.missing_reason for p in parameters))
    if changed or callers.cloned:  # only a register in debug information is certain
        located = [own is not None and "DW_AT_location" in own.attributes for _, own in formals]
        why = [CHANGED if changed and each else OPTIMISED_OUT for each in located]
        parameters = tuple(map(lose_unless_named, parameters, why))
    less = types.llvm and leaves_out(chain, [d for d, _ in formals])
    if less:
        parameters = tuple(map(lose_unless_named, parameters, repeat(LEFT_OUT)))
    declared = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    result = types.formal("", declared)
    if types.tells_changes and changed and may_be_lost(die, formals, parameters, result):
        parameters = tuple(replace(p, missing_reason=OPTIMISED_OUT) for p in parameters)
    lost = changed or RETURNS_LESS.search(names) or _may_return_less(die, callers, types)
    if declared is not None and lost:
        result = replace(result, missing_reason=CHANGED if changed else OPTIMISED_OUT)
    complete = not (changed or callers.cloned or less) and declares_all(chain, hints.language)
    made = Prototype(
        *(parameters, result),
        hints=hints,
        filled_late=not types.llvm and any(p.late_reason is not None for p in parameters),
        complete=complete,
        leaves_out=less,
        stores_all=callers.plain,
    )
    return _of_rust(made, chain, formals, function.address, callers, types) if types.rust else made


def _of_rust(
    made: Prototype,
    chain: Sequence[Any],
    formals: Sequence[tuple[Any, Any]],
    address: int,
    callers: Callers,
    types: Types,
) -> Prototype:
    """A function of Rust by what debug information does not say: what it passes otherwise if it
    has the convention of C, what a closure captures."""
    # Imported here because most programs are not Rust.
    from lbtrace.dwarf import rust_closures, rust_foreign

    parameters = made.parameters
    if rust_closures.is_cut(chain, parameters):
        captured = rust_closures.environment(chain[0], address, callers)
        if captured is None:
            parameters = tuple(map(lose_unless_named, parameters, repeat(LEFT_OUT)))
            made = replace(made, complete=False)
        else:
            parameters = (captured, *parameters)
        return replace(made, parameters=parameters)
    if rust_closures.is_closure(chain):
        return made  # none is ``extern "C"``
    declared = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    return replace(made, otherwise=rust_foreign.as_c(made, formals, declared, types.wide_integer()))


def _find_callers(
    chain: Sequence[Any],
    formals: Sequence[tuple[Any, Any]],
    function: Function,
    names: str,
    hints: ConventionHints,
    types: Types,
) -> Callers:
    """What the compiler may do because of who calls a function, which has these ``names``."""
    cloned = CLONE.search(names) is not None
    external = not cloned and any("DW_AT_external" in d.attributes for d in chain)
    method = any("DW_AT_specification" in d.attributes for d in chain)
    optimised = any(name in d.attributes for d in chain for name in ALL_CALLS)
    plain = types.is_plain(optimised=optimised)
    silent = not plain and types.is_silent(method=method)
    if silent and function.local:  # so is what was exported, when LLVM links a program
        external = False
    # The callers of a function that is not exported are all known: the compiler may pass
    # something other than what it declares. What is public in Rust need not be exported.
    known = not external or types.rust
    # No version records this.
    promotes = types.llvm and optimised and (known or function.local)
    registers = find_convention(types.machine, hints).PASSING
    followed = not types.llvm and _is_followed(chain[0])
    return Callers(known, cloned, promotes, silent, plain, optimised, followed, registers)


def _pair_formals(die: Any, chain: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The parameters that a function declares, each with what says where this copy of it keeps
    the parameter, or None."""
    concrete = {_origin_offset(d): d for d in _formals(die)}
    if "DW_AT_abstract_origin" not in die.attributes:
        return [(d, d) for d in concrete.values()]
    # A function's own copy may leave out or reorder parameters: the
    # abstract origin has them all, in order.
    declared = [(d, concrete.get(d.offset)) for d in _formals(chain[1])]
    return [(d, own) for d, own in declared if not _is_unpassed(d, own)]


def _is_unchanged(die: Any, formals: Sequence[tuple[Any, Any]], types: Types) -> bool:
    """Whether rustc did not optimise a function: all that has a location lies in its frame, from
    beginning to end. What it does not use may have none all the same."""
    located = [own for _, own in formals if own is not None and "DW_AT_location" in own.attributes]
    kept = bool(located) and all(lists.home(own, die) is not None for own in located)
    return kept and not types.optimised()


def _is_followed(die: Any) -> bool:
    """Whether gcc has followed how the variables of a function move: it does so for all of them
    or none."""
    formals = _formals(die)
    if any(map(moves, formals)):
        return True
    # What is said of the others is needed only where something is said of parameters.
    if not any("DW_AT_location" in d.attributes for d in formals):
        return False
    return any(map(moves, _variables(die)))


def _variables(die: Any) -> Iterator[Any]:
    """The variables within a function, also of what is inlined there."""
    for child in die.iter_children():
        if child.tag in VARIABLES:
            yield child
        elif child.tag in SCOPES:
            yield from _variables(child)


def _may_return_less(die: Any, callers: Callers, types: Types) -> bool:
    """Whether the compiler may leave out a result that no caller uses, or that is always the
    same, and debug information says nothing of it."""
    if not (callers.silent and callers.known):
        return False
    return types.rust or callers.optimised or any(map(moves, _formals(die)))


def _is_optimised(unit: Unit, types: Types) -> bool:
    """Whether rustc optimised a unit: what it passes as a value is not always in one place."""
    for die in islice(unit.functions(attributes.NAMESPACES), SAMPLE):
        for formal in filter(moves, _formals(die)):
            typed = next((d for d in origins(formal) if "DW_AT_type" in d.attributes), None)
            own = types.formal("", typed)
            if not (own.reference or own.scalars is None):
                return True
    return False


def _is_changed(chain: Sequence[Any]) -> bool:
    """Whether LLVM changed what is passed and returned. From version 16 on it says
    so, but not of methods."""
    return any(attributes.number(d, "DW_AT_calling_convention", 0) == DW_CC_NOCALL for d in chain)


def _convention_code(chain: Sequence[Any]) -> int:
    """The ``DW_AT_calling_convention`` of a function, if it has one other than `DW_CC_NOCALL`."""
    codes = (attributes.number(d, "DW_AT_calling_convention", 0) for d in chain)
    return next((code for code in codes if code not in (0, DW_CC_NOCALL)), 0)


def _formals(die: Any) -> list[Any]:
    return [d for d in die.iter_children() if d.tag == "DW_TAG_formal_parameter"]


def _is_unpassed(die: Any, own: Any) -> bool:
    """Whether ``die`` is one of the parameters that gcc adds to its model of a
    constructor, but passes to none of its copies, or not to this one."""
    name = attributes.text(die, "DW_AT_name")
    located = own is not None and "DW_AT_location" in own.attributes
    return name == "__in_chrg" or (name == "__vtt_parm" and not located)


def _origin_offset(die: Any) -> int:
    if "DW_AT_abstract_origin" in die.attributes:
        return int(die.get_DIE_from_attribute("DW_AT_abstract_origin").offset)
    return int(die.offset)
