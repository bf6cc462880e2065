"""The values of Go functions without debug information: as a Go traceback shows them.

Go's own tables tell how many arguments there are, their sizes, and how they
group; the code tells in which registers they come. No types: a value is
bits. What cannot be told is unreadable, never guessed. Nothing tells
results but the code, and where it does not there are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from lbtrace import model
from lbtrace.arch.go_abi import MISSING, Convention, OnStack, Told, placed
from lbtrace.elf.go_arguments import Group, Part, Word
from lbtrace.model import Formal, Member, Opaque, Prototype, Record, Scalar, Type

WORD = 8

UNPLACED = "?"
"""Why an argument cannot be read of which only the size is told."""

MORE = "…"
"""There are arguments of which the table tells nothing."""


def prototype(
    arguments: Group,
    registers: Mapping[int, str] | None,
    results: Sequence[int],
    convention: Convention,
) -> Prototype:
    """What ``arguments`` amount to, with ``results`` of these sizes in registers.

    ``registers`` are those of arguments by their offsets, the others being on
    the stack; None where the code does not tell.
    """
    numbers = {name: number for number, name in convention.dwarf.items()}
    formals: list[Formal] = []
    located: list[tuple[int, ...] | int | None] = []
    for number, part in enumerate(arguments.parts):
        told = words(part)
        start = min((w.offset for w in told if w.size), default=0)
        held = [None if registers is None else registers.get(w.offset) for w in told]
        lost = ""
        if any(not w.size for w in told) or (registers is None and told):
            lost = UNPLACED
        scalars: tuple[Scalar, ...] | None = None
        place: tuple[int, ...] | int | None = start + convention.stack - convention.cfa
        if told and all(held):
            place = tuple(numbers[name] for name in held if name)
            scalars = tuple(Scalar(w.offset - start, w.size, "integer") for w in told)
        type = _type(part, start)
        size = max((w.offset - start + w.size for w in told), default=0)
        formals.append(Formal(f"arg{number}", type, size, scalars, lost=lost))
        located.append(place)
    if _is_cut(arguments):
        formals.append(Formal("", Opaque(""), 0, None, lost=MORE))
        located.append(None)
    outcomes = tuple(word("", size) for size in results)
    return Prototype(tuple(formals), None, outcomes, tuple(located), exact=True)


def abi0(arguments: Group | None, size: int, told: Told, convention: Convention) -> Prototype:
    """What is known of a function written in assembly, or that calls C.

    Its ``arguments`` are told if it takes them from the stack, where results follow
    up to ``size`` bytes. Otherwise it is one of the few that use registers: those
    are arguments that it reads first.
    """
    if arguments is None:
        registers = {WORD * n: name for n, name in enumerate(convention.integers)}
        parts = tuple(Word(WORD * n, WORD) for n in range(told.read_first))
        return prototype(Group(parts, more=not parts), registers, told.results, convention)
    end = max((w.offset + w.size for w in words(arguments)), default=0)
    start = -(-end // WORD) * WORD
    sizes = [min(WORD, size - at) for at in range(start, size, WORD)]
    return prototype(arguments, {}, () if _is_cut(arguments) else sizes, convention)


def stacked(told: OnStack, all_words: bool) -> Prototype:
    """The words that the code of a function tells to be arguments, and results. Those that
    it does not read are unknown, unless ``all_words`` are asked for."""
    formals: list[Formal] = []
    for number, parts in enumerate(told.arguments):
        name = f"arg{number}"
        whole = word(name)
        if not parts:
            whole = whole if all_words else replace(whole, lost=UNPLACED)
        elif [at for at, _ in parts] != [0]:
            members = tuple(Member("", model.Word("", size, False), at) for at, size in parts)
            whole = replace(whole, type=Record("", WORD, members))
        else:
            whole = replace(whole, type=model.Word("", parts[0][1], False))
        formals.append(whole)
    return Prototype(tuple(formals), None, tuple(word("", size) for size in told.results))


def unknown(results: Sequence[int]) -> Prototype:
    """Of a function nothing is told but some results in registers."""
    more = Formal("", Opaque(""), 0, None, lost=MORE)
    return Prototype((more,), None, tuple(word("", size) for size in results))


def incomplete(prototype: Prototype, missing: int, convention: Convention) -> Prototype:
    """What remains of ``prototype`` where debug information leaves out parameters.

    A parameter is where it is said to be, or unknown. ``missing`` are the bytes on the
    stack that what is declared does not take; results follow them if that is all.
    """
    located = [
        place if isinstance(place, tuple) or len(formal.scalars or ()) == 1 else None
        for formal, place in zip(prototype.parameters, prototype.located, strict=True)
    ]
    parameters = [
        formal if place is not None else replace(formal, lost=UNPLACED)
        for formal, place in zip(prototype.parameters, located, strict=True)
    ]
    _, returned = placed(prototype, convention)
    results = [
        replace(formal, lost=UNPLACED) if not place.registers and missing <= 0 else formal
        for formal, place in zip(prototype.results, returned, strict=True)
    ]
    before = Formal(MISSING, Opaque(""), max(missing, 0), None)
    behind = Formal("", Opaque(""), 0, None, lost=MORE)
    return replace(
        prototype,
        parameters=(before, *parameters, behind),
        results=tuple(results),
        located=(None, *located, None),
    )


def word(name: str, size: int = WORD) -> Formal:
    """A value of ``size`` bytes of which nothing else is known."""
    return Formal(name, model.Word("", size, False), size, (Scalar(0, size, "integer"),))


def whole(arguments: Group, name: str, size: int, dictionary: int) -> Group:
    """``arguments`` with the first one of generic code, for which the compiler leaves
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


def words(part: Part) -> list[Word]:
    """All numbers and pointers of arguments, in order."""
    if isinstance(part, Word):
        return [part]
    return [word for inner in part.parts for word in words(inner)]


def _is_cut(part: Part) -> bool:
    return isinstance(part, Group) and (part.more or any(map(_is_cut, part.parts)))


def _type(part: Part, start: int) -> Type:
    if isinstance(part, Word):
        return model.Word("", part.size, False)
    members = tuple(
        Member("", _type(inner, first), first - start)
        for inner in part.parts
        for first in [min((w.offset for w in words(inner)), default=start)]
    )
    size = max((w.offset + w.size - start for w in words(part)), default=0)
    return Record("", size, members)
