"""Floats that a function stores where they can be read, soon after it begins.

At entry they are in vector registers, which BPF cannot read. A probe further on
reads them from memory, if the code proves that they lie there and debug
information agrees (`lbtrace.machine.SitePlanner.spills`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations, locate_values
from lbtrace.abi.locations import WORD, Location, dereferenced
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Exits, FloatSpills, Read
from lbtrace.model import Fetch, Formal, Prototype, Site, Value
from lbtrace.plan.value_selection import ValueSelection, select_values, sized

FLOAT = "float in "
"""What the place of a value in vector registers begins with."""


class FloatSitePlanner:
    """Moves probes to where floats can be read. One serves any number of functions of a file."""

    def __init__(self, machine: Machine, read: Read, selection: ValueSelection) -> None:
        self._machine = machine
        self._planner = machine.site_planner()
        self._read = read
        self._selection = selection

    def relocate(
        self,
        code: Code,
        prototype: Prototype,
        plain: CallValues,
        exits: Callable[[], Exits] | None,
        *,
        entry: bool = True,
    ) -> tuple[CallValues, Site | None] | None:
        """Return how values travel if floats are read where they can be, and where the probe then
        is placed, if not at entry; None where nothing is gained.

        ``plain`` is how they are passed at entry and return, ``exits`` gives where the function is
        left; without ``entry`` the probe cannot be moved.
        """
        stored, results = None, {}
        if entry and any(map(_is_float, plain.parameters)):
            stored = self._best(code, prototype, plain)
        if exits and plain.result and _is_float(plain.result):
            results = self._results(code, exits())
        if stored is None and not results:
            return None

        def places(prototype: Prototype) -> Locations:
            plain = locate_values(self._machine.name, prototype)
            parameters, result = plain.parameters, plain.result
            if stored is not None:
                formals = zip(prototype.parameters, parameters, strict=True)
                parameters = tuple(_relocated(*pair, stored) for pair in formals)
            if prototype.result is not None:
                result = _returned(prototype.result, result, results)
            return Locations(parameters, result)

        found = select_values(self._machine, prototype, self._selection, places)
        return found, stored.site if stored is not None else None

    def _best(self, code: Code, prototype: Prototype, plain: CallValues) -> FloatSpills | None:
        """The place at which most floats can be read, and of those the cheapest."""
        shown = sized(prototype, self._selection.args)
        places = locate_values(self._machine.name, shown)
        # Expressions may name registers, and the return may want one as it was.
        kept = {*plain.kept.split()}
        if self._names_registers(prototype):
            kept = plain.registers - {"ip", "pc"}
        best, rank = None, (0, False)
        for stored in self._planner.spills(code, self._read):
            if not _are_untouched(kept, stored):
                continue
            gained = _gained(shown.parameters, places.parameters, stored)
            if gained and (gained, stored.site.emulated) > rank:
                best, rank = stored, (gained, stored.site.emulated)
        return best

    def _names_registers(self, prototype: Prototype) -> bool:
        """Whether an expression asks for a register by its name, or for arguments that are not
        declared: those that are move with the probe."""
        if self._selection.request is None:
            return False
        from lbtrace.expressions.tree import names_in  # imported here because most traces need none

        names, count = names_in(self._selection.request), len(prototype.parameters)
        numbers = [name.removeprefix("arg") for name in names or ()]
        return names is None or any(n.isdecimal() and int(n) >= count for n in numbers)

    def _results(self, code: Code, exits: Exits) -> dict[str, tuple[Fetch, int]]:
        if exits.hidden or any(exit.kind != "return" for exit in exits.exits):
            return {}
        returns = [exit.site.address for exit in exits.exits]
        return self._planner.results(code, returns, self._read)


def are_unread(call_values: CallValues) -> bool:
    """Return whether some of the values are floats that cannot be read."""
    return any(map(_is_float, (*call_values.parameters, *filter(None, [call_values.result]))))


def _is_float(value: Value) -> bool:
    if value.slot < 0 and value.reason.startswith(FLOAT):
        return True
    return any(map(_is_float, value.members))


def _are_untouched(registers: set[str], stored: FloatSpills) -> bool:
    return all(stored.words.get(r, (None, 0)) == (Fetch(register=r), WORD) for r in registers)


def _gained(formals: Sequence[Formal], places: Sequence[Location], stored: FloatSpills) -> int:
    """How many words of floats can be read there; 0 where another value cannot."""
    count = 0
    for formal, place in zip(formals, places, strict=True):
        for word in _words(formal, place):
            found = _found(formal, word, stored)
            if word.is_float:
                count += found is not None
            elif found is None:
                return 0
    return count


ADDRESS = -1
"""The number of the word that is not a part of a value, but has its address."""


class _Word(Struct, frozen=True):
    """A part of a value that is in the register ``name``: the number of the word,
    where in the value it begins, and how many of its bytes count. Or it is its `ADDRESS`."""

    name: str
    number: int
    start: int
    size: int

    @property
    def is_float(self) -> bool:
        return self.name.startswith(FLOAT)


def _words(formal: Formal, place: Location) -> Iterator[_Word]:
    """What of a value, or of the address where it lies, is in registers."""
    if place.memory is not None:
        if place.memory.base == "register":
            yield _Word(place.memory.register, ADDRESS, 0, WORD)
        return
    starts = place.starts or tuple(range(0, WORD * len(place.words), WORD))
    ends = [*starts[1:], *(start + WORD for start in starts[-1:])]
    for number, (word, start, end) in enumerate(zip(place.words, starts, ends, strict=True)):
        ends = [s.offset + s.size for s in formal.scalars or () if start <= s.offset < end]
        size = max(ends, default=end) - start
        if isinstance(word, str):  # of more than eight bytes those above are found nowhere
            yield _Word(word, number, start, size)
        elif word.base == "register":
            yield _Word(word.register, number, start, min(size, WORD))


def _found(formal: Formal, word: _Word, stored: FloatSpills) -> Fetch | None:
    """What fetches a word there; None where nothing is certain to.

    A float is read where the code is seen to copy it to; debug information has to agree:
    the variable is there, or came in that register. Of other values it is enough that
    the place of the variable was written for the first time, and only then.
    """
    fetch, size = stored.words.get(word.name, (None, 0))
    home = _home(formal, word, stored)
    if size < word.size:
        written = home is not None and stored.once.issuperset(range(home, home + word.size))
        if word.is_float or not written:
            return None
        return Fetch(base="stack", offset=home or 0, read="integer", size=word.size)
    if not word.is_float:
        return fetch
    if formal.frame_location is None:
        return fetch if formal.register >= 0 else None
    return fetch if home is not None and stored.slots.get(home) == word.name else None


def _home(formal: Formal, word: _Word, stored: FloatSpills) -> int | None:
    """Where debug information has a part of a variable, from the stack pointer at entry."""
    if word.number == ADDRESS:
        return None  # there is a copy of the variable, not its address
    if formal.frame_location is None or formal.frame_location[0] not in stored.bases:
        return None
    base, offset = formal.frame_location
    return stored.bases[base] + offset + word.start


def _relocated(formal: Formal, place: Location, stored: FloatSpills) -> Location:
    """The place of a value when the probe is hit there."""
    words = list(place.words)
    for word in _words(formal, place):
        fetch = _found(formal, word, stored)
        if fetch is None:
            if not word.is_float:
                return Location(reason="overwritten before the floats can be read")
        elif place.memory is not None:
            at = dereferenced(replace(fetch, read="value")) if fetch.base == "stack" else fetch
            return Location(memory=at)
        else:
            words[word.number] = fetch
    return replace(place, words=tuple(words))


def _returned(formal: Formal, place: Location, results: dict[str, tuple[Fetch, int]]) -> Location:
    """The place of a result if vector registers with parts of it are read elsewhere."""
    words = list(place.words)
    for word in _words(formal, place):
        fetch, size = results.get(word.name, (None, 0))
        if fetch is not None and size >= word.size:
            words[word.number] = fetch
    return replace(place, words=tuple(words))
