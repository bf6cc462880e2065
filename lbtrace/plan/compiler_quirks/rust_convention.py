"""Whether a function of Rust has Rust's own convention or that of C (``extern "C"``).

Debug information does not say so. It shows where parameters are at entry in optimised code, and
where variables are in the frame in unoptimised code, into which the function's first instructions
store the parameters. Where both conventions have a parameter in the same place, that shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.dwarf_registers import find_register
from lbtrace.abi.locations import UNKNOWN, Location, find_piece, lose_unless_named
from lbtrace.abi.shifts import may_drop
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, ArgumentStores, Code
from lbtrace.model import CFA, Formal, Prototype
from lbtrace.plan.compiler_quirks.function_body import FunctionBody
from lbtrace.plan.compiler_quirks.overwritten import find_home, is_read

Where: TypeAlias = "tuple[str, int] | None"
"""What a byte of a value is in, and which byte of that it is: see `ArgumentStores.find_source`. A
register that points at the value has `POINTS` before its name; of a pointer on the caller's stack
this is where that lies."""

Words: TypeAlias = dict[int, Where]
"""Where the numbers of a value are, by their offsets."""

POINTS = "*"

BEGINNING = 512
"""Bytes within which a function stores its parameters."""

LARGEST_NUMBER = 16
"""Bytes of one that is not copied as a struct is."""

LARGEST = 1 << 13
"""Bytes of code that are read for what a function returns, at most."""


class Verdict(Enum):
    """What is known of a function's convention."""

    RUST = 1
    C = 2
    OPEN = 3


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype``, or what is true otherwise, or without what that leaves open."""
    machine, code = body.machine, body.beginning
    otherwise = prototype.otherwise
    if otherwise is None:
        return prototype
    own, of_c = _compare(machine, prototype, otherwise)
    *differ, result_differs = (a != b for a, b in zip(own, of_c, strict=True))
    known = differ.index(True) if True in differ else len(differ)
    if known == len(differ) and not result_differs:
        return _without_copies(prototype, of_c, body)
    evidence = _Evidence(machine, code)
    verdict = evidence.judge(prototype, own, of_c, known)
    if verdict is Verdict.OPEN and result_differs and evidence.returns_as(own[-1], of_c[-1]):
        verdict = Verdict.RUST
    if verdict is Verdict.RUST or not evidence.complete:
        return prototype
    if verdict is Verdict.C:
        return _without_copies(otherwise, of_c, body)
    lost = (
        formal if formal.missing_reason else lose_unless_named(formal, UNKNOWN)
        for formal in prototype.parameters[known:]
    )
    result = prototype.result
    if result is not None and result_differs:
        result = replace(result, missing_reason=result.missing_reason or UNKNOWN)
    parameters = (*prototype.parameters[:known], *lost)
    return replace(prototype, parameters=parameters, result=result)


def _without_copies(prototype: Prototype, of_c: list[Words], body: FunctionBody) -> Prototype:
    """``prototype`` without structs that callers copy to the stack by C's convention, of which a
    function has the copy as its variable: LLVM has them copy nothing where an optimised function
    does not read it, and only what is certainly read is."""
    copies = {
        number: min(where[1] for where in places)
        for number, (formal, words) in enumerate(zip(prototype.parameters, of_c, strict=False))
        if formal.may_shift
        and formal.frame_location is not None
        and (len(formal.scalars or ()) != 1 or formal.size > LARGEST_NUMBER)
        and (places := [w for w in words.values() if w and w[0] == CALLER_STACK])
    }
    if not copies:
        return prototype
    reads = body.machine.find_caller_reads(body.beginning(LARGEST)) or ()
    parameters = tuple(
        replace(formal, frame_location=None, may_be_unset=True)
        if number in copies and not is_read(reads, copies[number], formal.size)
        else formal
        for number, formal in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=parameters)


class _Evidence:
    """What debug information and the ``code`` of a function show of its parameters."""

    def __init__(self, machine: Machine, code: Callable[[int], Code]) -> None:
        self._machine = machine
        self._code = code
        self._stores: ArgumentStores | None = None
        self._agreed_with_c = False
        self.complete = True
        """Whether code was read where it was asked for."""

    def judge(
        self,
        prototype: Prototype,
        own: list[Words],
        of_c: list[Words],
        known: int,
    ) -> Verdict:
        """Return the convention that the parameters from the one with the number ``known`` on
        have, by their places in Rust's ``own`` one and in that ``of_c``."""
        agreed = {Verdict.RUST: 0, Verdict.C: 0}
        stored, moved, copied = True, False, False
        for formal, rust, c in list(zip(prototype.parameters, own, of_c, strict=False))[known:]:
            in_frame = formal.frame_location is not None
            # What comes after may have moved, but not what the caller's frame is known to hold.
            parted = not moved and not in_frame and may_drop(formal)
            moved = moved or parted
            if moved and not parted and not _is_in_callers_frame(formal):
                continue
            whole, at = rust.get(0) or ("", 0)
            is_pointer = whole.startswith(POINTS)
            if whole == POINTS + CALLER_STACK and self._find(formal, 0) == (CALLER_STACK, at):
                continue  # LLVM says of a pointer there what it says of a copy
            for at in rust:
                place = self._find(formal, at)
                if place is None or rust.get(at) == c.get(at):
                    continue
                whole, *_ = c.get(at) or ("", 0)
                if place == rust.get(at) and (c.get(at) is not None or place[0][0] == POINTS):
                    agreed[Verdict.RUST] += 1
                elif parted:
                    # A part of what C has on the stack as a whole may be in another register.
                    agreed[Verdict.RUST] += whole == CALLER_STACK != place[0]
                elif place == c.get(at) and rust.get(at) is not None:
                    agreed[Verdict.C] += 1
                    stored = stored and in_frame
                    # The value itself, to which Rust's own convention has a pointer.
                    copied |= whole == CALLER_STACK and in_frame and is_pointer
        self._agreed_with_c = agreed[Verdict.C] > 0
        if agreed[Verdict.RUST] and not agreed[Verdict.C]:
            return Verdict.RUST
        if agreed[Verdict.C] and (stored or copied) and not agreed[Verdict.RUST]:
            return Verdict.C
        return Verdict.OPEN

    def returns_as(self, own: Words, of_c: Words) -> bool:
        """Return whether a function leaves something for its callers in a register in which it has
        a part of its result by its ``own`` convention, but not by that ``of_c``; or nothing where
        that has one."""
        names, others = ({where[0] for where in each.values() if where} for each in (own, of_c))
        if any(name.startswith(POINTS) for name in others):  # its address may be left there
            others.add(self._machine.kernel.PLAIN_RESULTS[0])
        if not names - others or self._agreed_with_c:
            return False
        code = self._code(LARGEST)
        if not self._machine.find_result_writes(code).isdisjoint(names - others):
            return True
        widths = self._machine.find_result_widths(code)
        packed = (each for at, each in of_c.items() if each and each != own.get(at))
        return any(at and widths.get(name, at + 1) <= at for name, at in packed)

    def _find(self, formal: Formal, at: int) -> Where:
        """Where a byte of a parameter is at entry, if that is known."""
        if formal.frame_location is not None:
            return self._find_stored(*formal.frame_location, at)
        if formal.late_reason is not None:
            return None
        if formal.reference:
            return (POINTS + self._name(formal.register), at) if formal.register >= 0 else None
        if formal.pieces:
            piece = find_piece(formal, at, at + 1)
            if piece is None:
                return None
            return self._name(piece.register), piece.skipped + at - piece.start
        return (self._name(formal.register), at) if formal.register >= 0 else None

    def _find_stored(self, number: int, offset: int, at: int) -> Where:
        if number == CFA:
            return CALLER_STACK, offset + at + self._machine.return_address_size
        base = find_register(self._machine.name, number)
        if isinstance(base, str):
            return None
        if self._stores is None:
            self._stores = self._machine.find_argument_stores(self._code(BEGINNING))
            self.complete = self._stores is not None
        if self._stores is None:
            return None
        home = find_home(self._machine, (number, offset), self._find_frame_size)
        if base.register == "sp" and home is not None and home[0] == CALLER_STACK:
            return CALLER_STACK, home[1] + at
        found = self._stores.find_source(base.register, offset + at)
        # Optimised code may make its frame later.
        late = found[0] == CALLER_STACK and not self._stores.bases.get("sp")
        return found if found[0] and not late else None

    def _find_frame_size(self) -> int | None:
        return self._machine.find_frame_size(self._code(BEGINNING))

    def _name(self, number: int) -> str:
        found = find_register(self._machine.name, number)
        return found.split()[-1] if isinstance(found, str) else found.register


def _is_in_callers_frame(formal: Formal) -> bool:
    return formal.frame_location is not None and formal.frame_location[0] == CFA


def _compare(machine: Machine, *ways: Prototype) -> list[list[Words]]:
    """Where the parameters and the result are in each of these ``ways`` to call a function, as the
    conventions have them, whatever debug information says of them."""
    declared = [_without_locations(way) for way in ways]
    located = [locate_values(machine.name, way) for way in declared]
    values = [(*way.parameters, *filter(None, [way.result])) for way in declared]
    numbers = [{0}.union(*map(_list_offsets, formals)) for formals in zip(*values, strict=True)]
    return [
        [
            {at: _find_byte(place, at) for at in sorted(offsets)}
            for place, offsets in zip((*way.parameters, way.result), numbers, strict=False)
        ]
        for way in located
    ]


def _list_offsets(formal: Formal) -> set[int]:
    return set() if formal.reference else {scalar.offset for scalar in formal.scalars or ()}


def _without_locations(prototype: Prototype) -> Prototype:
    """``prototype`` as declared."""
    result = prototype.result
    return replace(
        prototype,
        parameters=tuple(map(_as_declared, prototype.parameters)),
        result=None if result is None else _as_declared(result),
    )


def _as_declared(formal: Formal) -> Formal:
    return formal.without_location(
        address=-1,
        missing_reason="",
        may_be_unset=False,
        may_shift=False,
        late_reason=None,
    )


def _find_byte(place: Location, at: int) -> Where:
    memory = place.memory
    if memory is not None:
        if memory.base == "stack" and not memory.derefs:
            return CALLER_STACK, memory.offset + at
        if memory.base == "stack":
            return POINTS + CALLER_STACK, memory.offset
        return POINTS + memory.register, at
    word, inside = place.word(at)
    if isinstance(word, str):
        return (word.split()[-1], inside) if word.startswith("float in ") else None
    if word.base == "stack":
        return CALLER_STACK, word.offset + inside
    return word.register, inside
