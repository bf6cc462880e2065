"""The calling conventions of Go: registers from 1.17 on, the stack before and in assembly.

Source: Go's ``src/cmd/compile/abi-internal.md`` and, where it is silent (values
of no size, blank fields), ``cmd/compile/internal/abi/abiutils.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.arch import SHALLOW, Passing, go_values
from lbtrace.arch.fetching import Fetcher, collected
from lbtrace.arch.places import Detail, Place, bare, dereferenced, integer, moved
from lbtrace.model import (
    LONG,
    Array,
    Fetch,
    Formal,
    Member,
    Prototype,
    Record,
    Scalar,
    String,
    Type,
    Value,
)

WORD = 8

DICTIONARY = ".dict"
"""The parameter by which a generic function is told its type arguments."""

MISSING = ".missing"
"""Stands for the parameters that debug information leaves out, before all others."""

REASONS = 2
"""Why the parts of a value cannot be read, at most: a complex number's two."""

HIDDEN = frozenset({DICTIONARY, MISSING})
"""Parameters that the source does not have."""


class Convention(Struct, frozen=True):
    """``integers`` are the registers of integers, in order of assignment,
    ``floats`` those of floats. ``stack`` is where stack-assigned values begin,
    and ``cfa`` where the canonical frame address of DWARF is, both relative to
    the stack pointer at entry. ``dwarf`` gives registers by their
    number in DWARF; here and in `Assigned` those of floats are marked by ``!``.
    """

    integers: tuple[str, ...]
    floats: tuple[str, ...]
    stack: int
    cfa: int
    dwarf: dict[int, str]


_AMD64_DWARF = (
    *("ax", "dx", "cx", "bx", "si", "di", "bp", "sp"),
    *(f"r{n}" for n in range(8, 16)),
    "",
    *(f"xmm{n}!" for n in range(16)),
)
CONVENTIONS = {
    "x86_64": Convention(
        ("ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11"),
        tuple(f"xmm{n}!" for n in range(15)),
        8,
        8,
        dict(enumerate(_AMD64_DWARF)),
    ),
    "aarch64": Convention(
        tuple(f"x{n}" for n in range(16)),
        tuple(f"v{n}!" for n in range(16)),
        8,
        0,
        {n: f"x{n}" for n in range(31)} | {64 + n: f"v{n}!" for n in range(32)},
    ),
}
"""ABIInternal. Values on the stack lie behind the return address (amd64), or
behind the word into which the callee saves it (arm64)."""


def stack_only(machine: str) -> Convention:
    """ABI0: everything on the stack."""
    internal = CONVENTIONS[machine]
    return Convention((), (), internal.stack, internal.cfa, internal.dwarf)


class Told(Struct, frozen=True):
    """What a function's code tells of values that nothing declares.

    ``registers`` are those that hold arguments, by the arguments' offsets among
    those that are on the stack or saved there; None where it does not tell.
    Then ``read_first`` is how many of the convention's integer registers hold
    arguments, at least. ``results`` are the sizes of the results in the first of
    these, as far as they are known.
    """

    registers: dict[int, str] | None
    read_first: int
    results: tuple[int, ...]


class OnStack(Struct, frozen=True):
    """What a function's code tells of the words it takes from the stack: of each argument's
    word what parts are read, as offset and size, and of each result's how many bytes
    are written."""

    arguments: tuple[tuple[tuple[int, int], ...], ...]
    results: tuple[int, ...]


class Assigned(NamedTuple):
    """Where a value lies: each of its scalars in a register (those of floats
    are marked by ``!``), or ``offset`` bytes above the stack pointer at entry."""

    registers: tuple[str, ...]
    offset: int


def assign(
    parameters: Sequence[Formal], results: Sequence[Formal], convention: Convention
) -> tuple[list[Assigned], list[Assigned]]:
    """Where parameters (the receiver first) and results lie.

    A formal whose ``scalars`` are None holds an array of several elements and
    is never put into registers.
    """
    stack = _Stack(convention.stack)
    taken = _assign(parameters, convention, stack)
    stack.align(WORD)
    return taken, _assign(results, convention, stack)


def stack_bytes(prototype: Prototype, convention: Convention) -> int:
    """Bytes that the parameters and results of ``prototype`` take on the stack."""
    stack = _Stack(convention.stack)
    for formals in (prototype.parameters, prototype.results):
        _assign(formals, convention, stack)
        stack.align(WORD)
    return stack.used


class _Stack:
    """The next free place among stack-assigned values."""

    def __init__(self, base: int) -> None:
        self._base, self.used = base, 0

    def align(self, to: int) -> None:
        self.used = -(-self.used // to) * to

    def take(self, size: int, alignment: int) -> int:
        self.align(alignment)
        at = self.used
        self.used += size
        return self._base + at


def _assign(formals: Sequence[Formal], convention: Convention, stack: _Stack) -> list[Assigned]:
    integers, floats = 0, 0
    places: list[Assigned] = []
    for formal in formals:
        needed = _needed(formal.scalars)
        if (
            formal.size == 0
            or needed is None
            or integers + needed.count("integer") > len(convention.integers)
            or floats + needed.count("float") > len(convention.floats)
        ):
            places.append(Assigned((), stack.take(formal.size, max(formal.alignment, 1))))
            continue
        registers: list[str] = []
        for kind in needed:
            if kind == "integer":
                registers.append(convention.integers[integers])
                integers += 1
            else:
                registers.append(convention.floats[floats])
                floats += 1
        places.append(Assigned(tuple(registers), 0))
    return places


def _needed(scalars: tuple[Scalar, ...] | None) -> list[str] | None:
    return None if scalars is None else [s.kind for s in scalars]


def passing(
    prototype: Prototype,
    convention: Convention,
    limit: int,
    detail: Detail = SHALLOW,
    *,
    shown: int | None = None,
) -> Passing:
    """How these values travel; at most ``limit`` slots an event.

    Of the parameters the first ``shown`` are shown. Several results become a
    record without a name.
    """
    parameters, results = prototype.parameters, prototype.results
    given, returned = placed(prototype, convention)
    declared = [(f, p) for f, p in zip(parameters, given, strict=True) if f.name not in HIDDEN]
    values, entry = _values(declared[:shown], limit, detail)
    outcomes, leaving = _values(list(zip(results, returned, strict=True)), limit, detail)
    result: Value | None = None
    if len(outcomes) == 1:
        result = replace(outcomes[0], name="")
    elif outcomes:
        result = replace(composed("", Record("", 0), outcomes), members=outcomes)
    return Passing(values, result, entry.fetches, leaving.fetches, entry.cut)


def _values(
    formals: Sequence[tuple[Formal, Assigned]], limit: int, detail: Detail
) -> tuple[tuple[Value, ...], Fetcher]:
    return collected(
        limit, detail, lambda fetcher: tuple(_value(fetcher, f, p) for f, p in formals)
    )


def placed(prototype: Prototype, convention: Convention) -> tuple[list[Assigned], list[Assigned]]:
    """Where parameters and results lie, with what ``prototype`` knows better than `assign`."""
    given, returned = assign(prototype.parameters, prototype.results, convention)
    return _corrected(prototype, given, convention), returned


def _corrected(
    prototype: Prototype, places: list[Assigned], convention: Convention
) -> list[Assigned]:
    """``places`` with what debug information knows better.

    Old compilers tell nothing of parameters without a name, which shifts
    those behind them. Of a value of several parts they may tell where only
    one is, so on the stack the simple ones are believed.
    """
    corrected: list[Assigned] = []
    shift = 0
    located = [*prototype.located, *[None] * len(places)]
    for formal, place, known in zip(prototype.parameters, places, located, strict=False):
        parts = len(formal.scalars or ())
        if isinstance(known, tuple) and len(known) == parts:
            names = tuple([convention.dwarf.get(number, "") for number in known])
            corrected.append(Assigned(names, 0) if all(names) else place)
        elif place.registers:
            corrected.append(place)
        else:
            if isinstance(known, int) and (parts == 1 or prototype.exact):
                shift = convention.cfa + known - place.offset
            corrected.append(Assigned((), place.offset + shift))
    return corrected


def composed(name: str, type: Type, members: Sequence[Value]) -> Value:
    """The value made of ``members``; it can be read where one of them can."""
    slot = next((m.slot for m in members if m.slot >= 0), -1)
    reasons = dict.fromkeys(m.reason for m in members)
    reason = ", ".join(filter(None, reasons)) if slot < 0 and len(reasons) <= REASONS else ""
    return Value(name, bare(type), slot, reason, members=tuple(members) if slot >= 0 else ())


def places(
    prototype: Prototype, convention: Convention
) -> tuple[tuple[Place, ...], Formal | None, Place]:
    """The places of parameters, and of the result, for expressions.

    Several results become a record of ``r0``, ``r1`` and so on, unless they
    have names.
    """
    given, returned = placed(prototype, convention)
    parameters = tuple(_place(f, p) for f, p in zip(prototype.parameters, given, strict=True))
    found = [(f, _place(f, p)) for f, p in zip(prototype.results, returned, strict=True)]
    if len(found) == 1:
        return parameters, *found[0]
    members: list[Member] = []
    words: list[Fetch | str] = []
    for number, (formal, place) in enumerate(found):
        members.append(Member(formal.name or f"r{number}", formal.type, WORD * len(words)))
        count = max(1, -(-formal.size // WORD))
        if place.memory is not None:
            words += [integer(moved(place.memory, WORD * n), LONG) for n in range(count)]
        else:
            words += place.words or (place.reason,) * count
    if not members:
        return parameters, None, Place()
    record = Record("", WORD * len(words), tuple(members))
    return parameters, Formal("", record, record.size), Place(words=tuple(words))


def _place(formal: Formal, assigned: Assigned) -> Place:
    if formal.lost:
        return Place(reason=formal.lost)
    if not assigned.registers:
        return Place(memory=Fetch(base="stack", offset=assigned.offset))
    scalars = formal.scalars or ()
    if any(s.offset % WORD for s in scalars):
        return Place(reason="its parts are spread over registers")
    words: list[Fetch | str] = [""] * -(-formal.size // WORD)
    for scalar, register in zip(scalars, assigned.registers, strict=True):
        words[scalar.offset // WORD] = _word(register)
    return Place(words=tuple(words))


def _value(fetcher: Fetcher, formal: Formal, place: Assigned) -> Value:
    if formal.lost:
        return Value(formal.name, bare(formal.type), -1, formal.lost)
    if not place.registers:
        memory = Fetch(base="stack", offset=place.offset)
        return in_memory(fetcher, formal.name, formal.type, memory)
    scalars = formal.scalars or ()
    words = {
        scalar.offset: _word(register)
        for scalar, register in zip(scalars, place.registers, strict=True)
    }
    return in_registers(fetcher, formal.name, formal.type, 0, words)


def in_memory(fetcher: Fetcher, name: str, type: Type, memory: Fetch) -> Value:
    """A value at an address in memory."""
    if go_values.is_counted(type):
        return go_values.counted(fetcher, name, type, dereferenced(memory))
    if go_values.is_slice(type):
        counts = [integer(moved(memory, at), LONG) for at in (WORD, 2 * WORD)]
        return go_values.sliced(fetcher, name, type, (dereferenced(memory), *counts))
    if go_values.is_interface(type):
        words = (dereferenced(memory), dereferenced(memory, WORD))
        return go_values.interface(fetcher, name, type, words)
    if isinstance(type, Record) and type.members and not go_values.is_flat(type):
        members = [
            in_memory(fetcher, m.name, m.type, moved(memory, m.offset)) for m in type.members
        ]
        return composed(name, type, members)
    return fetcher.value(name, type, Place(memory=memory))


def in_registers(
    fetcher: Fetcher, name: str, type: Type, offset: int, words: Mapping[int, Fetch | str]
) -> Value:
    """A value each of whose scalars has a register of its own, however small it is."""
    if go_values.is_counted(type) or go_values.is_slice(type) or go_values.is_interface(type):
        size = getattr(type, "size", WORD)
        own = tuple(w for at in range(0, size, WORD) if isinstance(w := words[offset + at], Fetch))
        if go_values.is_counted(type):
            return go_values.counted(fetcher, name, type, own[0])
        made = go_values.sliced if go_values.is_slice(type) else go_values.interface
        return made(fetcher, name, type, own)
    if isinstance(type, Record) and type.members:
        members = [
            in_registers(fetcher, m.name, m.type, offset + m.offset, words) for m in type.members
        ]
        return composed(name, type, members)
    if isinstance(type, Array) and type.count == 1:
        return composed(name, type, [in_registers(fetcher, "", type.element, offset, words)])
    span = 2 if isinstance(type, String) else 1
    held = tuple(words[at] for at in (offset, offset + WORD)[:span] if at in words)
    return fetcher.value(name, type, Place(words=held))


def _word(register: str) -> Fetch | str:
    return f"float in {register[:-1]}" if register.endswith("!") else Fetch(register=register)
