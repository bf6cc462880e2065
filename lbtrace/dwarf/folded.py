"""Functions that a linker folded into one, as their code is the same (``--icf=all``).

Which of them is called is not known: what they all declare is shown, the rest as it is passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from lbtrace.abi.locations import UNKNOWN
from lbtrace.dwarf import attributes
from lbtrace.elf import demangle
from lbtrace.model import UNKNOWN as RAW
from lbtrace.model import Formal, Function, Prototype

NAMES = (*attributes.LINKAGE, "DW_AT_name")


def may_be_folded(function: Function) -> bool:
    """Return whether a function has several names that are not those of one in the source."""
    return len(_names(function)) > 1


def _names(function: Function) -> list[str]:
    mangled = (name for name in (function.name, *function.aliases) if name.startswith("_Z"))
    return list(dict.fromkeys(map(demangle.short, mangled)))


def agree(
    function: Function, described: Iterable[tuple[Any, Prototype]]
) -> tuple[tuple[str, ...], Prototype] | None:
    """Return the names of the functions that have the code of ``function``, and what they have in
    common; None where it is one. ``described`` are those that debug information has: lld takes the
    addresses of others out of it."""
    alike: dict[str, Prototype] = {}
    for die, prototype in described:
        own = (attributes.text(d, name) for d in attributes.origins(die) for name in NAMES)
        alike.setdefault(demangle.short(next(filter(None, own), "")), prototype)
    names = tuple(dict.fromkeys([*_names(function), *alike]))
    if not alike or len(names) < 2:
        return None
    prototypes = [*alike.values()]
    if len(alike) < len(names):
        prototypes.append(_raw(prototypes[0]))
    return names, _agreed(prototypes)


def _raw(prototype: Prototype) -> Prototype:
    """``prototype`` without names and types."""
    result = prototype.result
    parameters = tuple(replace(each, name="", type=RAW) for each in prototype.parameters)
    return replace(
        prototype,
        parameters=parameters,
        result=None if result is None else replace(result, type=RAW),
    )


def _agreed(prototypes: Sequence[Prototype]) -> Prototype:
    parameters: list[Formal] = []
    for formals in zip(*(each.parameters for each in prototypes), strict=False):
        common = _common(formals)
        if common is None:
            break
        parameters.append(common)
    first = prototypes[0]
    results = [each.result for each in prototypes if each.result is not None]
    result = _common(results) if results and len(results) == len(prototypes) else None
    if result is None and first.result is not None:
        result = replace(first.result, missing_reason=UNKNOWN)
    return replace(first, parameters=tuple(parameters), result=result, complete=False)


def _common(formals: Iterable[Formal]) -> Formal | None:
    """What is true of each of ``formals``; None where they are not passed alike."""
    first, *others = formals
    for other in others:
        name = first.name if first.name == other.name else ""
        if (first.scalars, first.reference) != (other.scalars, other.reference):
            return None
        type = first.type if first.type == other.type else RAW
        if type is RAW and (first.reference or len(first.scalars or ()) != 1):
            return None
        first = replace(first, name=name, type=type)
    return first
