"""Parameters and results of functions, from DWARF 2 to 5.

Only the compilation units that hold a wanted function are read, each once, and
in a unit only the entries on the way to the functions and what these refer to.
Whatever is damaged or not understood counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lbtrace.elf import cache, debugfile, demangle, dies
from lbtrace.elf.debuginfo import lists
from lbtrace.elf.debuginfo.bounds import Budget, Exhausted
from lbtrace.elf.debuginfo.companions import Companions
from lbtrace.elf.debuginfo.entries import Unit
from lbtrace.elf.debuginfo.index import index
from lbtrace.elf.debuginfo.sections import Sections
from lbtrace.elf.image import Image
from lbtrace.elf.types import Types
from lbtrace.model import Formal, Function, Prototype, Void

LEAST, MOST = 2_000_000, 20_000_000
"""Work that goes into one selection, roughly in microseconds: for a small file, and at most."""

OPENED = frozenset({"DW_TAG_namespace", "DW_TAG_module"})
"""What functions stand in, but for nested ones, methods and closures."""

REFERENCES = ("DW_AT_abstract_origin", "DW_AT_specification")

DW_CC_NOCALL = 3
OPTIMISED_OUT = "optimised out"
LEFT_OUT = "debug information leaves out a parameter"
LINKAGE = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name")

CONSTANTS = frozenset(
    {*(0x03, 0x9E, 0xA0, 0xA1, 0xF2, 0xFA), *range(0x08, 0x12), *range(0x30, 0x50)}
)
"""What the location begins with of what is not passed: DW_OP_addr, implicit_value,
implicit_pointer, addrx, GNU_implicit_pointer, GNU_parameter_ref, const1u to consts, lit0
to lit31."""

SAMPLE = 500
"""Functions of a unit that are looked at to see whether it was optimised."""

ALL_CALLS = ("DW_AT_call_all_calls", "DW_AT_GNU_all_call_sites")
"""What clang says of optimised functions."""

CLONE = re.compile(r"\.(isra|constprop|part)\b")
"""Names of copies for which gcc changed what is passed; LLVM does so without renaming."""

RETURNS_LESS = re.compile(r"\.isra\b")
"""Those of copies that may return nothing, as nobody asked for it."""


class Prototypes(Struct):
    """The prototypes found, by address of the function. ``skipped`` counts the
    functions whose units were left unread to stay within their `Budget`; ``missing``
    are the files that hold the types of others and were not found."""

    found: dict[int, Prototype]
    skipped: int = 0
    missing: list[str] = field(default_factory=list)


def prototypes(
    image: Image,
    functions: Sequence[Function],
    depth: int = 0,
    debug: debugfile.Found | None = None,
) -> Prototypes:
    """The prototypes of ``functions``, as far as debug information has them.

    What pointers lead to is looked into ``depth`` pointers deep. ``debug`` is
    what `debugfile.find` found, if that was asked before.

    Raises nothing: a function that damaged debug information hides is missing.
    """
    result = Prototypes({})
    debug = debug or debugfile.find(image)
    if debug is None:
        return result
    wanted = {f.address: f for f in functions}
    budget = Budget(min(LEAST + len(debug.data) // 8, MOST))
    held: dict[int, list[int]] = {}
    try:
        companions = Companions(image.path, debug.path, debugfile.ROOT, budget)
        kept = cache.of(debug.path, image.build_id)
        file = companions.open(Sections(debug.data, kept))
        units = index(file)
        for address in sorted(wanted):
            holder = units.unit_of(address)
            if holder is not None:
                held.setdefault(holder, []).append(address)
    except Exception:  # damaged DWARF raises nearly anything
        return result
    for offset, addresses in held.items():
        try:
            unit = companions.whole(file.unit_at(offset))
            x87 = image.machine == "x86_64"
            types = Types(unit.root, depth, x87=x87)
            if types.rust:  # of functions of other languages each tells for itself
                types.silent = types.silent and _is_optimised(unit, types)
            _read_unit(unit, {a: wanted[a] for a in addresses}, result.found, types)
        except Exhausted:
            result.skipped += len([a for a in addresses if a not in result.found])
        except Exception:  # as above: this unit is damaged, the next may not be
            continue
    result.missing = list(companions.missing)
    return result


def _read_unit(
    unit: Unit, wanted: dict[int, Function], found: dict[int, Prototype], types: Types
) -> None:
    """Adds the prototypes of ``wanted``, by address."""
    for opened in (OPENED, None):
        for die in unit.functions(opened):
            address = lists.entry_address(die)
            if address not in wanted:
                continue
            function = wanted.pop(address)
            try:
                found[address] = _prototype(die, function, types)
            except Exhausted:
                raise
            except Exception:  # damaged: this function falls back to the convention
                continue
            if not wanted:
                return


def _prototype(die: Any, function: Function, types: Types) -> Prototype:
    chain = _chain(die)
    address, names = function.address, " ".join((function.name, *function.aliases))
    cloned = CLONE.search(names) is not None
    external = not cloned and any("DW_AT_external" in d.attributes for d in chain)
    if types.silent and function.local:  # so is what was exported, when LLVM links a program
        external = False
    # The callers of a function that is not exported are all known: the compiler may pass it
    # something else than it declares. What is public in Rust need not be exported.
    known = not external or types.rust
    concrete = {_origin_offset(d): d for d in _formals(die)}
    formals = [(d, d) for d in concrete.values()]
    if "DW_AT_abstract_origin" in die.attributes:
        # A function's own copy may leave out or reorder parameters: the
        # abstract origin has them all, in order.
        declared = [(d, concrete.get(d.offset)) for d in _formals(chain[1])]
        formals = [(d, own) for d, own in declared if not _is_unpassed(d, own)]
    parameters = tuple(
        replace(
            _formal(d, own, address, known, cloned, types),
            home=lists.home(own, die) if own is not None else None,
        )
        for d, own in formals
    )
    declared_result = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    changed = _is_changed(chain) or (types.llvm and any(p.lost for p in parameters))
    if changed or cloned:  # only what is told to be in a register is certain
        parameters = tuple(
            p if p.register >= 0 else replace(p, lost=OPTIMISED_OUT) for p in parameters
        )
    if types.llvm and _leaves_out(chain, [d for d, _ in formals]):
        parameters = tuple(p if p.register >= 0 else replace(p, lost=LEFT_OUT) for p in parameters)
    if declared_result is None:
        return Prototype(parameters, Formal("", Void(), 0))
    result = types.formal("", declared_result)
    unsure = changed or RETURNS_LESS.search(names) is not None
    if types.silent and known:
        # Results that nobody uses, or that are always the same, are not returned.
        told = any(name in d.attributes for d in chain for name in ALL_CALLS)
        unsure = unsure or types.rust or told or any(map(_moves, concrete.values()))
    return Prototype(parameters, replace(result, lost=OPTIMISED_OUT) if unsure else result)


def _is_optimised(unit: Unit, types: Types) -> bool:
    """Whether rustc optimised a unit: what it passes as a value is not always in one place."""
    for die in islice(unit.functions(OPENED), SAMPLE):
        for formal in filter(_moves, _formals(die)):
            typed = next((d for d in _chain(formal) if "DW_AT_type" in d.attributes), None)
            if not types.formal("", typed).reference:
                return True
    return False


def _moves(variable: Any) -> bool:
    """Whether a variable is not in one place."""
    location = variable.attributes.get("DW_AT_location")
    return location is not None and location.form not in lists.EXPRESSIONS


def _leaves_out(chain: Sequence[Any], formals: Sequence[Any]) -> bool:
    """Whether there are more parameters than ``formals``: clang says nothing of objects that
    are passed by reference and not used, in functions whose result is returned so."""
    names = (dies.text(d, name) for d in chain for name in LINKAGE)
    mangled = next(filter(None, names), "")
    declared = demangle.arity(mangled) if mangled.startswith("_Z") else None
    shown = sum(
        not any("DW_AT_artificial" in d.attributes for d in _chain(formal)) for formal in formals
    )
    return declared is not None and shown < declared


def _is_changed(chain: Sequence[Any]) -> bool:
    """Whether LLVM changed what is passed and returned. From version 16 on it says
    so, but not of methods."""
    return any(dies.number(d, "DW_AT_calling_convention", 0) == DW_CC_NOCALL for d in chain)


def _formals(die: Any) -> list[Any]:
    return [d for d in die.iter_children() if d.tag == "DW_TAG_formal_parameter"]


def _is_unpassed(die: Any, own: Any) -> bool:
    """Whether ``die`` is one of the parameters that gcc adds to its model of a
    constructor, but passes to none of its copies, or not to this one."""
    name = dies.text(die, "DW_AT_name")
    located = own is not None and "DW_AT_location" in own.attributes
    return name == "__in_chrg" or (name == "__vtt_parm" and not located)


def _origin_offset(die: Any) -> int:
    if "DW_AT_abstract_origin" in die.attributes:
        return int(die.get_DIE_from_attribute("DW_AT_abstract_origin").offset)
    return int(die.offset)


def _chain(die: Any) -> list[Any]:
    """``die`` and what it refers to as its origin or its declaration, in order."""
    chain = [die]
    while len(chain) < dies.DEPTH:
        reference = next((r for r in REFERENCES if r in chain[-1].attributes), None)
        if reference is None:
            break
        chain.append(chain[-1].get_DIE_from_attribute(reference))
    return chain


def _formal(die: Any, own: Any, address: int, known: bool, cloned: bool, types: Types) -> Formal:
    """A parameter: ``die`` declares it, ``own`` (or None) says where this copy keeps it.
    ``known`` are all callers of the function."""
    chain = _chain(die)
    typed = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    name = next((n for d in chain if (n := dies.text(d, "DW_AT_name"))), "")
    formal = types.formal(name, typed)
    located = own is not None and "DW_AT_location" in own.attributes
    expression = lists.expression(own, address) if located else b""
    register = lists.register(expression) if located else -1
    if expression and expression[0] in CONSTANTS:
        located, known = False, True  # the compiler passes nothing: it knows the value
    if types.silent and known and located:
        located = lists.is_passed(expression) if _moves(own) else not types.rust
    # Where gcc changes what is passed it makes a copy of the function with a name of its own.
    lost = OPTIMISED_OUT if not located and known and (types.llvm or cloned) else ""
    # LLVM leaves out what a function does not read where it calls it, exported or not.
    unread = not located and not lost and (types.llvm or known)
    return replace(formal, register=register, lost=lost, unread=unread)
