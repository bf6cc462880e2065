"""Parameters of unoptimised functions that are passed otherwise than their convention says.

clang compiles without optimisation, and the linker optimises across files nevertheless
(``clang -O0 -flto`` with ``lld``): LLVM then drops what a function is always passed the same for,
passes the members of structs by themselves, and debug information does not say so. The function's
first instructions do: they store each parameter from where it is at entry to where the variable is
throughout the function. What the caller pushed may stay where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from lbtrace.abi import doubt, locate_values
from lbtrace.abi.dwarf_registers import NUMBERS, find_register
from lbtrace.abi.locations import OPTIMISED_OUT, UNKNOWN, WORD, Location
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, CONSTANT, ArgumentStores, Code
from lbtrace.model import Formal, Piece, Prototype
from lbtrace.plan.register_order import Source, rank_registers
from lbtrace.plan.store_order import is_in_order, takes_all

LANGUAGES = frozenset({"c", "c++"})

NOWHERE = ("", 0)
UNSET = frozenset({NOWHERE, (CONSTANT, 0)})


def settle(
    machine: Machine, prototype: Prototype, code: Callable[[], Code], *, local: bool = False
) -> Prototype:
    """``prototype``, with what its ``code`` shows where that contradicts the convention. Other
    files cannot refer to a ``local`` function: of those what the code does not confirm may not be
    passed at all."""
    hints = prototype.hints
    if hints.compiler != "llvm" or hints.language not in LANGUAGES or not _has_homes(prototype):
        return prototype
    stores = machine.find_argument_stores(code(), past_calls=prototype.stores_all)
    if stores is None:
        return prototype
    evidence = _Evidence(machine, prototype, stores)
    changed = evidence.contradicts()
    if not prototype.stores_all:
        # Optimised code may store something else first.
        return evidence.as_stored() if changed and evidence.moves_up() else prototype
    if changed and not (evidence.stays or (local and evidence.moves_on())):
        return doubt(prototype)
    dropped = local and not evidence.confirms_all()
    return evidence.as_stored() if changed or dropped else prototype


def _has_homes(prototype: Prototype) -> bool:
    return all(
        formal.frame_location is not None or (formal.reference and prototype.stores_all)
        for formal in prototype.parameters
    )


class _Evidence:
    """What a function stores of the parameters of its ``prototype``, and what it should."""

    def __init__(self, machine: Machine, prototype: Prototype, stores: ArgumentStores) -> None:
        self._machine = machine
        self._prototype = prototype
        self._stores = stores
        self._numbers = NUMBERS[machine.name]
        self._expected = self._locate(prototype)
        self._found = [
            {at: self._find(formal, at) for at in _offsets(formal)}
            for formal in prototype.parameters
        ]
        self._drop_copies()
        self.stays = all(
            found in UNSET or found == expected.get(at)
            for each, expected in zip(self._found, self._expected, strict=True)
            for at, found in each.items()
        )
        """Whether each parameter is passed where the convention has it, or not at all."""

    def contradicts(self) -> bool:
        """Return whether something is stored that the convention has elsewhere."""
        return any(
            found not in (NOWHERE, expected[at])
            for each, expected in zip(self._found, self._expected, strict=True)
            for at, found in each.items()
            if expected.get(at)
        )

    def confirms_all(self) -> bool:
        """Return whether all is stored from where the convention has it."""
        return all(
            found == expected[at]
            for each, expected in zip(self._found, self._expected, strict=True)
            for at, found in each.items()
            if expected.get(at)
        )

    def moves_up(self) -> bool:
        """Return whether what is stored of words in integer registers comes from where it is if
        those that are stored from none are not passed."""
        words = [
            (expected[at][0], found[0])
            for each, expected in zip(self._found, self._expected, strict=True)
            for at, found in each.items()
            if expected.get(at) and not expected[at][1] and self._is_integer(expected[at])
        ]
        order = [expected for expected, _ in words]
        dropped = unknown = 0
        last = -1
        for number, (_, stored) in enumerate(words):
            if stored == CONSTANT:
                dropped += 1
            elif stored not in order:
                unknown += 1
            else:
                at = order.index(stored)
                if not (last < at and dropped <= number - at <= dropped + unknown):
                    return False
                last = at
        return True

    def moves_on(self) -> bool:
        """Return whether what is stored of a function that nothing optimised is what it is passed,
        but for what its callers do not pass any more."""
        ranks = {at: n for n, at in enumerate(self._stores.first)}
        stored = [
            min((ranks[at] for at in self._find_home(n) if at in ranks), default=-1)
            for n in range(len(self._prototype.parameters))
        ]
        memory = locate_values(self._machine.name, self._prototype).result.memory
        return is_in_order(self._prototype.parameters, stored) and takes_all(
            self._found,
            rank_registers(self._machine.name, self._prototype.hints),
            hidden=memory is not None,
        )

    def as_stored(self) -> Prototype:
        """Return the prototype with its parameters where they are stored from."""
        prototype = self._prototype
        result = prototype.result
        returned = locate_values(self._machine.name, prototype).result
        if result is not None and not (prototype.stores_all and returned.words):
            result = replace(result, missing_reason=result.missing_reason or UNKNOWN)
        doubted = doubt(prototype).parameters
        parameters = [
            self._as_found(own, other, found, expected)
            for own, other, found, expected in zip(
                prototype.parameters, doubted, self._found, self._expected, strict=True
            )
        ]
        # The convention goes on from there: what it has elsewhere then cannot be expressed.
        while True:
            made = replace(prototype, parameters=tuple(parameters), result=result)
            wrong = [
                number
                for number, (place, found) in enumerate(
                    zip(self._locate(made), self._found, strict=True)
                )
                if any(place.get(at) not in (None, source) for at, source in found.items())
            ]
            if not wrong:
                return made
            for number in wrong:
                parameters[number] = replace(doubted[number], missing_reason=UNKNOWN)

    def _as_found(  # noqa: PLR0911 - a return for each case
        self, formal: Formal, doubted: Formal, found: dict[int, Source], expected: dict[int, Source]
    ) -> Formal:
        """A parameter where it is stored from."""
        sources = set(found.values())
        if not found or formal.scalars is None or formal.reference:
            return doubted
        if sources & UNSET:
            if self.stays:
                return replace(formal, may_be_unset=True)
            return replace(doubted, missing_reason=OPTIMISED_OUT)
        if found == expected and all(name == CALLER_STACK for name, _ in sources):
            return formal
        if any(name == CALLER_STACK for name, _ in sources):
            return replace(doubted, missing_reason=UNKNOWN)
        if formal.size <= WORD and len(sources) == 1:
            ((name, skipped),) = sources
            if not skipped:
                return replace(formal, register=self._number(name), missing_reason="")
        pieces = tuple(
            Piece(self._number(found[s.offset][0]), s.offset, s.offset + s.size, found[s.offset][1])
            for s in formal.scalars
        )
        in_words = all(start == at % WORD for at, (_, start) in found.items())
        return replace(
            formal,
            register=-1,
            part_registers=(),
            pieces=pieces,
            missing_reason="",
            passed_separately=not in_words or self._lies_in_memory(formal),
        )

    def _lies_in_memory(self, formal: Formal) -> bool:
        place = locate_values(
            self._machine.name, replace(self._prototype, parameters=(formal,))
        ).parameters[0]
        return place.memory is not None

    def _find(self, formal: Formal, at: int) -> Source:
        """Where at entry what is stored ``at`` bytes into a parameter is, if that is known."""
        if formal.frame_location is None:
            return NOWHERE
        number, offset = formal.frame_location
        base = find_register(self._machine.name, number)
        distance = None if isinstance(base, str) else self._stores.find_distance(base.register)
        if distance is None:
            return NOWHERE
        where = distance + offset + at
        if where >= self._machine.return_address_size:
            # LLVM has only that there which is passed there.
            return CALLER_STACK, where
        return self._stores.first.get(where, NOWHERE)

    def _drop_copies(self) -> None:
        """Forget those of several parameters that are stored from one place that are not the first:
        they are copies, made later."""
        order = {stored: n for n, stored in enumerate(self._stores.first.items())}
        owners: dict[Source, tuple[int, int, int]] = {}
        for number, each in enumerate(self._found):
            for at, source in each.items():
                if source[0] in ("", CONSTANT):
                    continue
                rank = order.get((self._where(number, at), source), -1)
                owners[source] = min(owners.get(source, (rank, number, at)), (rank, number, at))
        for number, each in enumerate(self._found):
            for at, source in each.items():
                if source in owners and owners[source][1] != number:
                    each[at] = NOWHERE

    def _find_home(self, number: int) -> range:
        """The bytes of a parameter in the frame, from the stack pointer at entry."""
        formal = self._prototype.parameters[number]
        start = self._where(number, 0) if formal.frame_location is not None else 0
        # What the caller pushed may stay where it is.
        return range(start, start + formal.size) if start < 0 else range(0)

    def _where(self, number: int, at: int) -> int:
        """How far a byte of a parameter in the frame is from the stack pointer at entry."""
        register, offset = self._prototype.parameters[number].frame_location or (0, 0)
        base = find_register(self._machine.name, register)
        name = "" if isinstance(base, str) else base.register
        return (self._stores.find_distance(name) or 0) + offset + at

    def _locate(self, prototype: Prototype) -> list[dict[int, Source]]:
        """Where the convention has the bytes of parameters, as far as it is known."""
        places = locate_values(self._machine.name, prototype).parameters
        return [
            {at: where for at in _offsets(formal) if (where := _find_byte(place, at))}
            for formal, place in zip(prototype.parameters, places, strict=True)
        ]

    def _is_integer(self, source: Source) -> bool:
        return source[0] in self._numbers.names

    def _number(self, name: str) -> int:
        """DWARF's number of a register."""
        if name in self._numbers.names:
            return self._numbers.names.index(name)
        return self._numbers.first + int(name.removeprefix(self._numbers.vector))


def _offsets(formal: Formal) -> Iterator[int]:
    """The numbers that a parameter is made of, by their offsets."""
    if not formal.reference:
        yield from dict.fromkeys(scalar.offset for scalar in formal.scalars or ())


def _find_byte(place: Location, at: int) -> Source | None:
    """Where a byte of a parameter is whose ``place`` is this."""
    memory = place.memory
    if memory is not None:
        direct = memory.base == "stack" and not memory.derefs
        return (CALLER_STACK, memory.offset + at) if direct else None
    word, inside = place.word(at)
    if isinstance(word, str):
        return (word.split()[-1], inside) if word.startswith("float in ") else None
    if word.base == "stack":
        return CALLER_STACK, word.offset + inside
    return word.register, inside
