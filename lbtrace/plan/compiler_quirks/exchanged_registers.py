"""Parameters for which debug information has the registers of others, which are assigned to them.

LLVM has a parameter, or a part of it, at the function's entry where what is assigned to it first is
passed. What was passed for it is where the convention has it, if the function reads that: its
callers need not fill what it does not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import find_convention
from lbtrace.abi.locations import OPTIMISED_OUT, WORD, Location
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, Code, Read
from lbtrace.model import Fetch, Formal, Piece, Prototype
from lbtrace.plan.compiler_quirks.declared import (
    as_declared,
    is_as_declared,
    locate_declared,
    name_register,
)
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody
from lbtrace.plan.compiler_quirks.overwritten import LARGEST, FrameSize, find_home
from lbtrace.plan.compiler_quirks.register_order import rank_registers


class Part(Struct, frozen=True):
    """The bytes of a value from ``start`` to before ``end`` that debug information has in the
    register ``named``, ``skipped`` bytes into that, and the convention in ``passed``, ``within``
    bytes into that (empty: in none)."""

    named: str
    passed: str
    start: int
    end: int
    skipped: int = 0
    within: int = 0

    @property
    def agrees(self) -> bool:
        """Whether both have it in the same place."""
        return self.named == self.passed and self.skipped == self.within


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return ``prototype`` without those registers that are others' by the convention, if it
    certainly is called by that and all is passed as it is declared."""
    machine, code, read = body.machine, body.beginning, body.read
    formals = prototype.parameters
    if prototype.hints.compiler == "gcc" and not prototype.complete:
        return _lose_shared(prototype)
    if not is_as_declared(prototype) or not any(map(_is_located, formals)):
        return prototype
    places = locate_declared(machine, prototype)
    passing = find_convention(machine.name, prototype.hints).PASSING
    numbers = {name_register(machine, number): number for number in passing}
    frame_size = cache(lambda: machine.find_frame_size(code(BEGINNING)))
    parts = [
        [] if place.reason else list(_split(machine, formal, place, frame_size, numbers))
        for formal, place in zip(formals, places, strict=True)
    ]
    exchange = _Exchange(machine, prototype, places, parts, numbers, code, read)
    mended = tuple(map(exchange.mend, formals, places, parts))
    return prototype if mended == formals else replace(prototype, parameters=mended)


def _lose_shared(prototype: Prototype) -> Prototype:
    """``prototype``, which may be a copy of a function for which gcc changed what is passed,
    without the parameters that are in one register: only one of them is passed there."""
    times = Counter(formal.register for formal in prototype.parameters if formal.register >= 0)
    if not any(count > 1 for count in times.values()):
        return prototype
    lost = {"register": -1, "part_registers": (), "missing_reason": OPTIMISED_OUT}
    parameters = (
        replace(formal, **lost) if times[formal.register] > 1 else formal
        for formal in prototype.parameters
    )
    return replace(prototype, parameters=tuple(parameters))


class _Exchange:
    """The registers of a function's parameters."""

    def __init__(
        self,
        machine: Machine,
        prototype: Prototype,
        places: Sequence[Location],
        parts: Sequence[Sequence[Part]],
        numbers: Mapping[str, int],
        code: Callable[[int], Code],
        read: Read,
    ) -> None:
        self._machine, self._code, self._read = machine, code, read
        self._ranks = rank_registers(machine.name, prototype.hints)
        self._numbers = numbers
        self._passed = set().union(*(place.all_registers for place in places))
        self._times = Counter(name for each in parts for name in {part.named for part in each})
        self._agreeing = {part.named for each in parts for part in each if part.agrees}
        self._pushed = {
            place.memory.offset
            for place in places
            if place.memory is not None and place.memory.base == "stack"
        }

    def mend(self, formal: Formal, place: Location, parts: Sequence[Part]) -> Formal:
        """Return a parameter without the places of others. It has this ``place`` by the
        convention."""
        others = [part for part in parts if not part.agrees and self._is_others(part)]
        declared = as_declared(formal)
        if others and (others[0].named == CALLER_STACK or not place.all_registers):
            return declared  # it remains to be seen whether it is read
        unread = {
            part
            for part in parts
            if (part in others and not (self._is_known(formal, part) and self._is_read(part)))
            or self._is_guessed(part)
        }
        if not others and not unread:
            return formal
        kept = [part for part in parts if part not in unread]
        if not kept:
            return replace(declared, may_be_unset=True)
        if not unread and not formal.pieces:
            return declared
        pieces = tuple(
            Piece(self._numbers[part.passed], part.start, part.end, part.within)
            for part in kept
            if part.passed in self._numbers
        )
        held = tuple(piece.register for piece in pieces)
        return replace(declared, absent=formal.absent, pieces=pieces, part_registers=held)

    def _is_guessed(self, part: Part) -> bool:
        """Whether a part need not be passed where it is not known what debug information has in
        its register: the function does not read that."""
        kind, _ = self._ranks.get(part.passed, ("", 0))
        return not part.named and kind == "integer" and not self._is_read(part)

    def _is_others(self, part: Part) -> bool:
        """Whether it is in a place that is another's too, or only."""
        if part.named == CALLER_STACK:
            return part.skipped in self._pushed
        return bool(part.named) and (part.named in self._passed or self._times[part.named] > 1)

    def _is_known(self, formal: Formal, part: Part) -> bool:
        """Whether a part is certainly passed as declared, though debug information has it
        elsewhere: what it has after that agrees, so that nothing can be passed before it of which
        it does not say so; or this itself is before that, or a register that the function fills."""
        kind, rank = self._ranks.get(part.passed, ("", 0))
        at = [self._ranks[name] for name in self._agreeing if name in self._ranks]
        if any(each == kind and rank < later for each, later in at):
            return True
        other, earlier = self._ranks.get(part.named, ("", 0))
        if kind == other and earlier < rank:
            return True
        if formal.late_reason is None:
            return False
        return part.named in self._machine.find_first_writes(self._code(BEGINNING))

    def _is_read(self, part: Part) -> bool:
        return bool(part.passed) and self._machine.reads_at_entry(
            self._code(LARGEST), [part.passed], self._read
        )


def _split(
    machine: Machine,
    formal: Formal,
    place: Location,
    frame_size: FrameSize,
    passing: Collection[str],
) -> Iterator[Part]:
    """The parts of a parameter of which debug information has a location, where the convention has
    it in this ``place``."""
    words = _list_words(formal, place)
    if formal.pieces:
        for piece in formal.pieces:
            passed, start, _ = next((w for w in words if piece.start < w[2]), ("", 0, 0))
            name, within = name_register(machine, piece.register), piece.start - start
            yield Part(name, passed, piece.start, piece.end, piece.skipped, within)
        return
    numbers = {formal.register, formal.derived_from, *formal.part_registers} - {-1}
    named = {name_register(machine, number) for number in numbers}
    home = formal.frame_location
    if not named and home is not None:
        source = find_home(machine, home, frame_size)
        pushed = place.memory.offset if place.memory and not place.all_registers else 0
        if source is not None and source[0] == CALLER_STACK:
            yield Part(CALLER_STACK, "" if place.words else CALLER_STACK, 0, 0, source[1], pushed)
        return
    own = {name for name, _, _ in words}
    if len(words) > 1:  # parts may be in the frame, or computed
        named.intersection_update(passing)
    other = min(named - own, default="")
    for passed, start, end in words:
        if len(words) == 1:
            yield Part(other or passed, passed, start, end)
        elif named:
            # What each of the registers holds is not known.
            yield Part(other, passed, start, min(end, formal.size))


def _list_words(formal: Formal, place: Location) -> Sequence[tuple[str, int, int]]:
    """The registers in which a parameter, or the pointer to it, is passed, with the offsets from
    and to which they hold it. Of what is on the stack the register is empty."""
    if place.memory is not None and place.memory.base == "register":
        return [(place.memory.register, 0, WORD)]
    if not place.words:
        return [("", 0, formal.size)]
    return [(_register(word), start, end) for word, start, end in place.spans()]


def _is_located(formal: Formal) -> bool:
    held = formal.derived_from >= 0 or formal.register >= 0 or bool(formal.part_registers)
    return held or formal.frame_location is not None


def _register(word: Fetch | str) -> str:
    if isinstance(word, str):
        return word.split()[-1] if word else ""
    return word.register if word.base == "register" else ""
