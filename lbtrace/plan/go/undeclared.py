"""The values of Go functions without debug information: as a Go traceback shows them.

Go's own tables hold the number of arguments, their sizes and their grouping; the code shows which
registers pass them. There are no types: a value is bits. An unknown value is unreadable, never
guessed. Nothing declares results but the code, and where it does not there are none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from lbtrace.abi.go import MISSING, Assignment, GoConvention, assign, placed
from lbtrace.elf.go.arguments import ArgumentPart, Group, Word
from lbtrace.machine.code import InferredRegisters
from lbtrace.model import Formal, Prototype, Scalar
from lbtrace.plan.go.argument_views import bits, type_of, words

WORD = 8

UNPLACED = "?"
"""Reason shown for an argument whose size is known but not its location."""

NOT_KEPT = "unused, lost where the stack grows"
"""Reason shown for an argument in registers that the code does not save before its stack grows,
as it reads none of it (``partLiveArgsSpilled`` in cmd/compile/internal/ssagen/ssa.go)."""

MORE = "…"
"""There are arguments that the table does not list."""

FAR = 0xF0
"""From which offset on the table does not have those of arguments."""

ON_STACK = "results on the stack"
"""Reason shown in place of results for which registers do not suffice, or that are arrays: neither
their number nor their order among the others is known."""


def prototype(
    arguments: Group,
    registers: Mapping[int, str] | None,
    results: Sequence[int],
    convention: GoConvention,
) -> Prototype:
    """Return what ``arguments`` amount to, with ``results`` of these sizes in registers.

    ``registers`` are those of arguments by their offsets, the others being on
    the stack; None where the code does not show it.
    """
    numbers = {name: number for number, name in convention.dwarf.items()}
    formals: list[Formal] = []
    located: list[tuple[int, ...] | int | None] = []
    for number, part in enumerate(arguments.parts):
        found = words(part)
        start = min((w.offset for w in found if w.size), default=0)
        held = [None if registers is None else registers.get(w.offset) for w in found]
        lost = ""
        if any(not w.size for w in found) or (registers is None and found):
            lost = UNPLACED
        scalars: tuple[Scalar, ...] | None = None
        place: tuple[int, ...] | int | None = start + convention.stack - convention.cfa
        if found and all(held):
            place = tuple(numbers[name] for name in held if name)
            scalars = tuple(Scalar(w.offset - start, w.size, "integer") for w in found)
        type = type_of(part, start)
        size = max((w.offset - start + w.size for w in found), default=0)
        formals.append(Formal(f"arg{number}", type, size, scalars, missing_reason=lost))
        located.append(place)
    if _is_cut(arguments):
        formals.append(Formal("", bits(0), 0, None, missing_reason=MORE))
        located.append(None)
    outcomes = tuple(word("", size) for size in results)
    return Prototype(tuple(formals), None, outcomes, tuple(located), exact=True)


def abi0(
    arguments: Group | None, size: int, inferred: InferredRegisters, convention: GoConvention
) -> Prototype:
    """Return what is known of a function written in assembly, or that calls C.

    Its ``arguments`` are known if it takes them from the stack, where results follow up to ``size``
    bytes. Otherwise it is one of the few that use registers: those are arguments that it reads
    first.
    """
    if arguments is None:
        registers = {WORD * n: name for n, name in enumerate(convention.integers)}
        parts = tuple(Word(WORD * n, WORD) for n in range(inferred.read_first))
        return prototype(Group(parts, more=not parts), registers, inferred.results, convention)
    end = max((w.offset + w.size for w in words(arguments)), default=0)
    start = -(-end // WORD) * WORD
    sizes = [min(WORD, size - at) for at in range(start, size, WORD)]
    return prototype(arguments, {}, () if _is_cut(arguments) else sizes, convention)


def leaves_more(prototype: Prototype) -> Prototype:
    """Return ``prototype`` with results on the stack beside those in registers."""
    more = Formal("", bits(0), 0, None, missing_reason=ON_STACK)
    return replace(prototype, results=(*prototype.results, more))


def has_gap(arguments: Group, name: str, size: int) -> bool:
    """Return whether results of the function ``name`` lie on the stack: of the ``size`` bytes for
    arguments and results, some words are not those of ``arguments``, nor of a dictionary. Where the
    table leaves out others that is not known."""
    generic = "[" in name
    if _is_cut(arguments) or (generic and any(not w.size for w in words(arguments))):
        return False
    found = sorted((w.offset if w.size else FAR, w.offset + w.size) for w in words(arguments))
    starts, ends = [*(start for start, _ in found), size], [0, *(end or FAR for _, end in found)]
    gaps = [start - end for start, end in zip(starts, ends, strict=True) if start - end >= WORD]
    return sum(gaps) > WORD * generic


def unknown(results: Sequence[int]) -> Prototype:
    """Return the prototype of a function about which only result registers are known."""
    more = Formal("", bits(0), 0, None, missing_reason=MORE)
    return Prototype((more,), None, tuple(word("", size) for size in results))


def incomplete(
    prototype: Prototype, known: Sequence[bool], missing: int | None, convention: GoConvention
) -> Prototype:
    """Return what remains of ``prototype`` where debug information may leave out parameters.

    A parameter is where it is ``known`` or said to be, or unknown. ``missing`` are the bytes on the
    stack that what is declared does not take, after which results follow; None if not known.
    """
    given, returned = assign(prototype.parameters, prototype.results, convention)
    located: list[tuple[int, ...] | int | None] = []
    for formal, sure, place, location in zip(
        prototype.parameters, known, given, prototype.located, strict=True
    ):
        if sure and not place.registers:
            located.append(place.offset - convention.cfa)
        elif isinstance(location, tuple) or _is_single(formal, place):
            located.append(location)
        else:
            located.append(None)
    parameters = [
        formal if location is not None else replace(formal, missing_reason=UNPLACED)
        for formal, location in zip(prototype.parameters, located, strict=True)
    ]
    results = [
        formal
        if place.registers or missing is not None
        else replace(formal, missing_reason=UNPLACED)
        for formal, place in zip(prototype.results, returned, strict=True)
    ]
    before = Formal(MISSING, bits(0), missing or 0, None)
    after = Formal("", bits(0), 0, None, missing_reason=MORE)
    return replace(
        prototype,
        parameters=(before, *parameters, after),
        results=tuple(results),
        located=(None, *located, None),
        exact=True,
    )


def lasting(prototype: Prototype, kept: Collection[str], convention: GoConvention) -> Prototype:
    """Return ``prototype`` without the parameters of which a register is not ``kept`` when the
    stack grows."""
    given, _ = placed(prototype, convention)
    return replace(
        prototype,
        parameters=tuple(
            formal
            if formal.missing_reason or all(r in kept or r.endswith("!") for r in place.registers)
            else replace(formal, missing_reason=NOT_KEPT)
            for formal, place in zip(prototype.parameters, given, strict=True)
        ),
    )


def _is_single(formal: Formal, place: Assignment) -> bool:
    """Whether a location on the stack is that of a parameter: of several parts, debug information
    may have that of one; of one in a register, it has where that is saved."""
    return not place.registers and len(formal.scalars or ()) == 1


def word(name: str, size: int = WORD) -> Formal:
    """Return a value of ``size`` bytes of which nothing else is known."""
    return Formal(name, bits(size), size, (Scalar(0, size, "integer"),))


def whole(arguments: Group, name: str, size: int, dictionary: int) -> Group:
    """Return ``arguments`` with the first one of generic code, for which the compiler leaves
    out of its table whatever is passed first, to hide the dictionary.

    That comes first in a generic function alone. ``dictionary`` is its place in a method,
    -1 in one that only wraps another; closures have none. ``size`` is that of all the
    arguments, in bytes.
    """
    if "[" not in name or name.endswith("]") or not size:
        return arguments
    parts = arguments.parts
    first = min((w.offset for w in words(arguments)), default=size)
    missing = Word(0, first if first == WORD else 0)
    if dictionary < 0 or re.search(r"\.(func|gowrap|deferwrap)[\d.]+$|-range\d+$", name):
        return Group((missing, *parts), arguments.more)
    return Group((missing, *parts[1:]), arguments.more) if dictionary else arguments


def _is_cut(part: ArgumentPart) -> bool:
    return isinstance(part, Group) and (part.more or any(map(_is_cut, part.parts)))
