"""Parameters and results of functions, from DWARF 2 to 5.

Only the compilation units that hold a wanted function are parsed, each at
most once, and within a unit only the entries on the way to the functions.
Whatever is damaged or not understood counts as missing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from elftools.elf.elffile import ELFFile
from msgspec import Struct

from lbtrace.elf import debugfile, dies
from lbtrace.elf.image import Image
from lbtrace.elf.types import Types, language_of
from lbtrace.model import Formal, Function, Prototype, Void

BUDGET = 16 << 20
"""Bytes of debug information read for one selection: some seconds of work."""

CONTAINERS = frozenset({"DW_TAG_namespace", "DW_TAG_module"})
INNER_CONTAINERS = frozenset(
    {
        "DW_TAG_structure_type",
        "DW_TAG_class_type",
        "DW_TAG_union_type",
        "DW_TAG_enumeration_type",
        "DW_TAG_lexical_block",
        "DW_TAG_subprogram",
    }
)
"""What nested functions, methods and closures stand in."""

REFERENCES = ("DW_AT_abstract_origin", "DW_AT_specification")
DW_OP_REG0, DW_OP_REG31 = 0x50, 0x6F


CLONE = re.compile(r"\.(isra|constprop|part)\b")
"""Names of copies for which gcc changed what is passed; LLVM does so without renaming."""


class Prototypes(Struct):
    """The prototypes found, by address of the function. ``skipped`` counts the
    functions whose units were left unread to stay within `BUDGET`."""

    found: dict[int, Prototype]
    skipped: int = 0


def prototypes(image: Image, functions: Sequence[Function], depth: int = 0) -> Prototypes:
    """The prototypes of ``functions``, as far as debug information has them.

    What pointers lead to is looked into ``depth`` pointers deep.

    Raises nothing: a function that damaged debug information hides is missing.
    """
    result = Prototypes({})
    stream: Any = debugfile.data(image)
    if stream is None:
        return result
    wanted = {f.address: any(map(CLONE.search, (f.name, *f.aliases))) for f in functions}
    try:
        dwarf: Any = ELFFile(stream).get_dwarf_info(
            relocate_dwarf_sections=False, follow_links=False
        )
        units = _units(dwarf, sorted(wanted))
    except Exception:  # damaged DWARF raises nearly anything inside pyelftools
        return result
    budget = BUDGET
    for unit, addresses in units:
        try:
            budget -= unit["unit_length"]
            if budget < 0 and result.found:
                result.skipped += len(addresses)
                continue
            _read_unit(unit, {a: wanted[a] for a in addresses}, result.found, depth)
        except Exception:  # as above: this unit is damaged, the next may not be
            continue
    return result


def _units(dwarf: Any, addresses: list[int]) -> list[tuple[Any, list[int]]]:
    """The units that hold ``addresses``, each with those it holds."""
    held: dict[int, list[int]] = {}
    units: dict[int, Any] = {}
    missing: list[int] = []
    try:
        index = dwarf.get_aranges()
    except Exception:  # a damaged index is no index
        index = None
    for address in addresses:
        offset = index.cu_offset_at_addr(address) if index else None
        if offset is None:
            missing.append(address)
            continue
        if offset not in units:
            units[offset] = dwarf.get_CU_at(offset)
        held.setdefault(offset, []).append(address)
    if missing:
        for unit in dwarf.iter_CUs():
            inside = [
                a for low, high in _ranges(unit.get_top_DIE()) for a in _between(missing, low, high)
            ]
            if inside:
                units[unit.cu_offset] = unit
                held.setdefault(unit.cu_offset, []).extend(inside)
    return [(units[offset], held[offset]) for offset in sorted(held)]


def _between(addresses: list[int], low: int, high: int) -> list[int]:
    return addresses[bisect_right(addresses, low - 1) : bisect_right(addresses, high - 1)]


def _ranges(die: Any) -> Iterator[tuple[int, int]]:
    """The addresses of the code of a unit or function; the first range holds its entry."""
    low = _low(die)
    if "DW_AT_ranges" not in die.attributes:
        if low is not None:
            yield low, _high(die, low)
        return
    base = _low(die.cu.get_top_DIE()) or 0
    offset = die.attributes["DW_AT_ranges"].value
    for entry in die.dwarfinfo.range_lists().get_range_list_at_offset(offset, cu=die.cu):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        else:
            shift = 0 if entry.is_absolute else base
            yield entry.begin_offset + shift, entry.end_offset + shift


def _low(die: Any) -> int | None:
    attribute = die.attributes.get("DW_AT_low_pc")
    return None if attribute is None else int(attribute.value)


def _high(die: Any, low: int) -> int:
    attribute = die.attributes.get("DW_AT_high_pc")
    if attribute is None:
        return low + 1
    value = int(attribute.value)
    return value if attribute.form == "DW_FORM_addr" else low + value


def _entry(die: Any) -> int | None:
    """The address of a function's first instruction."""
    return next(_ranges(die), (None,))[0]


def _read_unit(unit: Any, wanted: dict[int, bool], found: dict[int, Prototype], depth: int) -> None:
    """Adds the prototypes of ``wanted``, which says of each address whether a clone lies there."""
    top = unit.get_top_DIE()
    language = language_of(top)
    types = Types(language, depth)
    for containers in (CONTAINERS, CONTAINERS | INNER_CONTAINERS):
        for die in _subprograms(unit, top, containers):
            address = _entry(die)
            if address not in wanted:
                continue
            cloned = wanted.pop(address)
            with suppress(Exception):  # damaged: this function falls back to the convention
                found[address] = _prototype(die, address, types, cloned=cloned)
            if not wanted:
                return


def _subprograms(unit: Any, top: Any, containers: frozenset[str]) -> Iterator[Any]:
    """The functions below ``top``, looked for inside ``containers`` only."""
    pending = [(top, 0)]
    while pending:
        parent, depth = pending.pop()
        last = parent.offset
        for die in unit.iter_DIE_children(parent):
            if die.offset <= last:
                break  # damaged: entries refer back to earlier ones as their siblings
            last = die.offset
            if die.tag == "DW_TAG_subprogram":
                yield die
            if die.tag in containers and depth < dies.DEPTH:
                pending.append((die, depth + 1))


def _prototype(die: Any, address: int, types: Types, *, cloned: bool) -> Prototype:
    chain = _chain(die)
    external = not cloned and any("DW_AT_external" in d.attributes for d in chain)
    concrete = {_origin_offset(d): d for d in _formals(die)}
    formals = [(d, d) for d in concrete.values()]
    if "DW_AT_abstract_origin" in die.attributes:
        # A function's own copy may leave out or reorder parameters: the
        # abstract origin has them all, in order.
        declared = [(d, concrete.get(d.offset)) for d in _formals(chain[1])]
        formals = [(d, own) for d, own in declared if not _is_unpassed(d, own)]
    parameters = tuple(_formal(d, own, address, external, types) for d, own in formals)
    result = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    return Prototype(
        parameters, Formal("", Void(), 0) if result is None else types.formal("", result)
    )


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


def _formal(die: Any, own: Any, address: int, external: bool, types: Types) -> Formal:
    """A parameter: ``die`` declares it, ``own`` (or None) says where this copy keeps it."""
    chain = _chain(die)
    typed = next((d for d in chain if "DW_AT_type" in d.attributes), None)
    name = next((n for d in chain if (n := dies.text(d, "DW_AT_name"))), "")
    formal = types.formal(name, typed)
    located = own is not None and "DW_AT_location" in own.attributes
    register = _register(own, address) if located else -1
    # The callers of a function that is not exported are all known: the
    # compiler may pass it something else than it declares.
    lost = "" if located or external else "optimised out"
    return Formal(
        formal.name,
        formal.type,
        formal.size,
        formal.scalars,
        formal.reference,
        register,
        lost,
        split=formal.split,
    )


def _register(die: Any, address: int) -> int:
    """The DWARF number of the register that holds a parameter at function entry, or -1."""
    attribute = die.attributes["DW_AT_location"]
    if attribute.form.startswith(("DW_FORM_exprloc", "DW_FORM_block")):
        return _register_of(attribute.value)
    base = _low(die.cu.get_top_DIE()) or 0
    lists = die.dwarfinfo.location_lists()
    for entry in lists.get_location_list_at_offset(attribute.value, die):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        elif hasattr(entry, "loc_expr"):
            shift = 0 if entry.is_absolute else base
            if entry.begin_offset + shift <= address < entry.end_offset + shift:
                return _register_of(entry.loc_expr)
    return -1


def _register_of(expression: Sequence[int]) -> int:
    if len(expression) == 1 and DW_OP_REG0 <= expression[0] <= DW_OP_REG31:
        return expression[0] - DW_OP_REG0
    return -1
