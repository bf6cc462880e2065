"""The calling conventions of Go: registers from 1.17 on, the stack before and in assembly.

Source: Go's ``src/cmd/compile/abi-internal.md`` and, where it is silent (values
of no size, blank fields), ``cmd/compile/internal/abi/abiutils.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations, find_convention
from lbtrace.abi.locations import Location, integer, moved
from lbtrace.model import (
    LONG,
    ConventionHints,
    Fetch,
    Formal,
    Member,
    Prototype,
    Scalar,
)
from lbtrace.values import join_results

WORD = 8

DICTIONARY = ".dict"
"""The parameter in which a generic function gets its type arguments."""

MISSING = ".missing"
"""Placeholder for the leading parameters that debug information omits."""

HIDDEN = frozenset({DICTIONARY, MISSING})
"""Parameters that the source does not have."""


class GoConvention(Struct, frozen=True):
    """``integers`` are the registers of integers, in order of assignment,
    ``floats`` those of floats. ``stack`` is where stack-assigned values begin,
    and ``cfa`` where the canonical frame address of DWARF is, both relative to
    the stack pointer at entry. ``dwarf`` gives registers by their
    number in DWARF; here and in `Assignment` those of floats are marked by ``!``.
    """

    integers: tuple[str, ...]
    floats: tuple[str, ...]
    stack: int
    cfa: int
    dwarf: dict[int, str]

    @property
    def PASSING(self) -> Collection[int]:
        """See `lbtrace.abi.CallingConvention`."""
        return self.dwarf.keys()

    def places(self, prototype: Prototype) -> Locations:
        """See `lbtrace.abi.CallingConvention`. Several results become a record of ``r0``,
        ``r1`` and so on, unless they have names."""
        given, returned = placed(prototype, self)
        parameters = tuple(locate(f, p) for f, p in zip(prototype.parameters, given, strict=True))
        found = [(f, locate(f, p)) for f, p in zip(prototype.results, returned, strict=True)]
        result, place = found[0] if len(found) == 1 else _joined(found)
        return Locations(parameters, place, returned=result)


_AMD64_DWARF = (
    *("ax", "dx", "cx", "bx", "si", "di", "bp", "sp"),
    *(f"r{n}" for n in range(8, 16)),
    "",
    *(f"xmm{n}!" for n in range(16)),
)

REGISTERS_X86_64 = GoConvention(
    ("ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11"),
    tuple(f"xmm{n}!" for n in range(15)),
    8,
    8,
    dict(enumerate(_AMD64_DWARF)),
)
"""ABIInternal. Values on the stack follow the return address."""

REGISTERS_AARCH64 = GoConvention(
    tuple(f"x{n}" for n in range(16)),
    tuple(f"v{n}!" for n in range(16)),
    8,
    0,
    {n: f"x{n}" for n in range(31)} | {64 + n: f"v{n}!" for n in range(32)},
)
"""ABIInternal. Values on the stack follow the word into which the callee saves the return
address."""

STACK_X86_64 = replace(REGISTERS_X86_64, integers=(), floats=())
STACK_AARCH64 = replace(REGISTERS_AARCH64, integers=(), floats=())
"""ABI0: everything on the stack."""


def find_go_convention(machine: str, *, registers: bool) -> GoConvention:
    """Return the convention of a function that takes values in ``registers``, or none."""
    hints = ConventionHints(runtime="go registers" if registers else "go stack")
    return cast("GoConvention", find_convention(machine, hints))


class Assignment(Struct, frozen=True):
    """Where a value lies: each of its scalars in a register (those of floats
    are marked by ``!``), or ``offset`` bytes above the stack pointer at entry."""

    registers: tuple[str, ...]
    offset: int


def assign(
    parameters: Sequence[Formal],
    results: Sequence[Formal],
    convention: GoConvention,
    stack: _Stack | None = None,
) -> tuple[list[Assignment], list[Assignment]]:
    """Return where parameters (the receiver first) and results lie, taking them from ``stack``.

    A formal whose ``scalars`` are None holds an array of several elements and
    is never put into registers.
    """
    stack = stack or _Stack(convention.stack)
    taken = _assign(parameters, convention, stack)
    stack.align(WORD)
    returned = _assign(results, convention, stack)
    stack.align(WORD)
    return taken, returned


class ArgumentSpace(Struct, frozen=True):
    """What the values of a function take on the stack, in bytes, ``padding`` being between them.

    Those in registers have room to be saved, behind the others (cmd/compile/abi-internal.md).
    """

    size: int
    padding: int


def argument_space(prototype: Prototype, convention: GoConvention) -> ArgumentSpace:
    """Return what the parameters and results of ``prototype`` take on the stack."""
    stack = _Stack(convention.stack)
    given, returned = assign(prototype.parameters, prototype.results, convention, stack)
    values = [*prototype.parameters]
    for formal, place in zip(prototype.parameters, given, strict=True):
        if place.registers:
            stack.take(formal.size, max(formal.alignment, 1))
    stack.align(WORD)
    values += [f for f, p in zip(prototype.results, returned, strict=True) if not p.registers]
    return ArgumentSpace(stack.used, stack.used - sum(value.size for value in values))


def certain(prototype: Prototype, convention: GoConvention) -> list[bool]:
    """Return of each parameter whether it is where `assign` puts it, although one that is not
    declared may be hidden by padding.

    On the stack that would move those before the padding, by multiples of their alignment. In
    registers only debug information can tell.
    """
    given, _ = assign(prototype.parameters, prototype.results, convention)
    located = prototype.located or (None,) * len(given)
    agreeing = [
        known == place.offset - convention.cfa
        if isinstance(known, int) and not place.registers
        else known is not None and _names(known, convention) == place.registers
        for place, known in zip(given, located, strict=True)
    ]
    if convention.integers:
        return agreeing
    answers: list[bool] = []
    end = convention.stack + argument_space(replace(prototype, results=()), convention).size
    padding = 0
    for formal, place, agrees in reversed(
        [*zip(prototype.parameters, given, agreeing, strict=True)]
    ):
        padding += end - place.offset - formal.size
        answers.append(agrees or padding < formal.alignment)
        padding *= not agrees
        end = place.offset
    return answers[::-1]


def _names(numbers: tuple[int, ...] | int, convention: GoConvention) -> tuple[str, ...]:
    """The registers of these numbers in DWARF."""
    numbers = numbers if isinstance(numbers, tuple) else ()
    return tuple([convention.dwarf.get(number, "") for number in numbers])


class _Stack:
    """The next free location among stack-assigned values."""

    def __init__(self, base: int) -> None:
        self._base, self.used = base, 0

    def align(self, to: int) -> None:
        self.used = -(-self.used // to) * to

    def take(self, size: int, alignment: int) -> int:
        self.align(alignment)
        at = self.used
        self.used += size
        return self._base + at


def _assign(formals: Sequence[Formal], convention: GoConvention, stack: _Stack) -> list[Assignment]:
    integers, floats = 0, 0
    places: list[Assignment] = []
    for formal in formals:
        needed = _needed(formal.scalars)
        if (
            formal.size == 0
            or needed is None
            or integers + needed.count("integer") > len(convention.integers)
            or floats + needed.count("float") > len(convention.floats)
        ):
            places.append(Assignment((), stack.take(formal.size, max(formal.alignment, 1))))
            continue
        registers: list[str] = []
        for kind in needed:
            if kind == "integer":
                registers.append(convention.integers[integers])
                integers += 1
            else:
                registers.append(convention.floats[floats])
                floats += 1
        places.append(Assignment(tuple(registers), 0))
    return places


def _needed(scalars: tuple[Scalar, ...] | None) -> list[str] | None:
    return None if scalars is None else [s.kind for s in scalars]


def placed(
    prototype: Prototype, convention: GoConvention
) -> tuple[list[Assignment], list[Assignment]]:
    """Return where parameters and results lie, with what ``prototype`` knows better than
    `assign`."""
    given, returned = assign(prototype.parameters, prototype.results, convention)
    return _corrected(prototype, given, convention), returned


def _corrected(
    prototype: Prototype, places: list[Assignment], convention: GoConvention
) -> list[Assignment]:
    """The locations ``places``, corrected by debug information.

    Old compilers do not declare parameters without a name, which shifts those after them. Of a
    value of several parts they may declare where only one is, so on the stack only the locations
    of single-part values are used.
    """
    corrected: list[Assignment] = []
    shift = 0
    located = [*prototype.located, *[None] * len(places)]
    for formal, place, known in zip(prototype.parameters, places, located, strict=False):
        parts = len(formal.scalars or ())
        if isinstance(known, tuple) and len(known) == parts:
            names = _names(known, convention)
            corrected.append(Assignment(names, 0) if all(names) else place)
        elif place.registers:
            corrected.append(place)
        else:
            if isinstance(known, int) and (parts == 1 or prototype.exact):
                shift = convention.cfa + known - place.offset
            corrected.append(Assignment((), place.offset + shift))
    return corrected


def _joined(found: Sequence[tuple[Formal, Location]]) -> tuple[Formal | None, Location]:
    """A record of several results, and where it lies."""
    members: list[Member] = []
    words: list[Fetch | str] = []
    starts: list[int] = []
    size = 0
    for number, (formal, place) in enumerate(found):
        members.append(Member(formal.name or f"r{number}", formal.type, size))
        offsets = range(0, max(1, formal.size), WORD)
        if place.memory is not None:
            words += [integer(moved(place.memory, offset), LONG) for offset in offsets]
        else:
            words += place.words or (place.reason,) * len(offsets)
        starts += [size + offset for offset in place.starts or offsets]
        size += WORD * len(offsets)
    if not members:
        return None, Location()
    record = join_results(members, size)
    return Formal("", record, size), Location(words=tuple(words), starts=tuple(starts))


def locate(formal: Formal, assigned: Assignment) -> Location:
    """Return the location of a value. However small a scalar is, it has a register of its own."""
    if formal.missing_reason:
        return Location(reason=formal.missing_reason)
    if not assigned.registers:
        return Location(memory=Fetch(base="stack", offset=assigned.offset))
    words = tuple(read_register(register) for register in assigned.registers)
    return Location(words=words, starts=tuple(s.offset for s in formal.scalars or ()))


def read_register(register: str) -> Fetch | str:
    """Return what fetches a register of `Assignment`, or why nothing can."""
    return f"float in {register[:-1]}" if register.endswith("!") else Fetch(register=register)
