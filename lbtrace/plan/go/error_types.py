"""What Go's errors are: the types that have a method ``Error``, as the tables of the runtime
describe them, also in stripped programs. Source: Go's ``internal/abi/type.go``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, ErrorPlaces, Lead
from lbtrace.dwarf.go_views import ARRAY, ENCODINGS, FORMS, INTERFACE, POINTER, SLICE, STRUCT
from lbtrace.elf.go.runtime_types import TypeTable
from lbtrace.model import Type, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.recognize import Bounds, Recognizer
from lbtrace.recognize import view as views
from lbtrace.recognize.fetcher import PIECE
from lbtrace.values.interface import ERROR, MESSAGE_FIRST

if TYPE_CHECKING:
    from lbtrace.recognize.view import Encoding, FormOfType

KIND, NAME, ELEMENT, FIELDS, METHODS, COUNT = 23, 40, 48, 56, 64, 64
"""Offsets in a descriptor: of the kind, of the name, of what a pointer leads to or an array is made
of, of the fields of a struct, of the number of methods of an interface, of elements of an array."""

FIELD, TYPE_OF_FIELD, OFFSET_OF_FIELD = 24, 8, 16
"""Bytes of ``StructField``, and offsets in it."""

CHANNEL, FUNCTION, MAP, UNSAFE_POINTER = 18, 19, 21, 26
DIRECT = frozenset({"pointer", "map or channel"})
WORDS = frozenset({POINTER, CHANNEL, FUNCTION, MAP, UNSAFE_POINTER})
"""Forms and kinds that an interface holds in its own data word, also if a struct is around it."""

MOST = 512
"""Types of errors that are looked at, those of the program itself first."""

BOUNDS = Bounds(nesting=3, members=16)

COSTS: dict[Lead, int] = {"text": 2, "error": 3, "numbered error": 4, "type": 1}
SLOTS = FETCHES - 5
"""Slots that each kind of part takes which is fetched, and those that all may take."""

ASSERTION: tuple[tuple[int, Lead], ...] = ((WORD, "type"), (2 * WORD, "type"))
"""Where ``runtime.TypeAssertionError`` has the types that it found and wanted."""

BOUNDS_ERROR, FRAMES = 24, 2
"""Bytes of ``runtime.boundsError``; slots that the probe takes for something else."""

USUAL = frozenset({"fs.PathError", "os.PathError", "net.OpError", "url.Error", "strconv.NumError"})
"""Of Go's own packages, what programs meet most often. The error in such a one is often a number
of the kernel's."""


class HeldTypes:
    """The structs that interfaces of a program may hold."""

    def __init__(self, table: TypeTable) -> None:
        self._table = table

    @cached_property
    def errors(self) -> dict[int, Type]:
        """Those of errors, as `held_types` returns them."""
        return held_types(self._table, self._table.errors())

    @cached_property
    def own(self) -> dict[int, Type]:
        """Those that the program itself defines."""
        return held_types(self._table, self._table.own_structs())


def held_types(table: TypeTable, wanted: Sequence[tuple[int, int]]) -> dict[int, Type]:
    """Return the structs to which the data word of an interface leads, by the hash of its type,
    which is this struct or a pointer to it. Those ``wanted`` are given by address and hash."""
    recognizer = Recognizer(bounds=BOUNDS)
    found: dict[int, Type] = {}
    for address, hash in wanted[:MOST]:
        view = RuntimeTypeView(table, address)
        if view.kind == POINTER:
            view = RuntimeTypeView(table, table.memory.word(address + ELEMENT))
        elif view.is_direct:
            continue
        if view.kind == STRUCT:
            found[hash] = recognizer.type_of(view)
    return found


def panic_places(errors: Iterable[Type], others: Iterable[Type]) -> ErrorPlaces:
    """Return what is fetched of what a program panics with: `usual_places` of ``errors``, less
    often one of the ``others``, of its own; and the types that an assertion names."""
    places = usual_places(errors, others, SLOTS - len(ASSERTION) - FRAMES)
    return replace(places, size=max(places.size, BOUNDS_ERROR), leads=(*ASSERTION, *places.leads))


def usual_places(
    types: Iterable[Type], others: Iterable[Type] = (), room: int = SLOTS
) -> ErrorPlaces:
    """Return where most of these types have texts and other errors, as far as there are so many
    slots; those count more that programs define themselves, and few that all meet."""
    wanted = Counter[tuple[int, bool]]()
    numbered = set[int]()
    size = 0
    all = {each.name: each for each in others}
    errors = {each.name: each for each in types if f"*{each.name}" not in MESSAGE_FIRST}
    for type in (all | errors).values():
        own = type.name.startswith("main.") and type.name in errors
        usual = type.name in USUAL
        size = max(size, type.size)
        for offset, part in _parts(type, 0):
            is_error = part.names_types and part.name == ERROR
            is_text = part.is_text() and offset > 0
            if offset + 2 * WORD <= PIECE and (is_text or is_error):
                wanted[offset, is_error] += 20 if own else 9 if usual else 1
                numbered |= {offset} if usual and is_error else set()
    chosen = list[tuple[int, Lead]]()
    for (offset, is_error), _ in wanted.most_common():
        kind: Lead = "text"
        if is_error:
            kind = "numbered error" if offset in numbered else "error"
        if COSTS[kind] <= room:
            room -= COSTS[kind]
            chosen.append((offset, kind))
    return ErrorPlaces(min(size, PIECE), tuple(chosen))


def _parts(type: Type, start: int) -> Iterator[tuple[int, Type]]:
    """The parts of a type with their offsets, also those of the records in it."""
    for member in type.components() or ():
        yield start + member.offset, member.type
        yield from _parts(member.type, start + member.offset)


def is_dynamic(value: Value) -> bool:
    """Return whether a value, or a part of it, is shown by the name of its type."""
    return value.type.names_types or any(map(is_dynamic, value.members))


WIDEST = 64
"""Fields of a struct that are looked at."""


class RuntimeTypeView(views.PlainView):
    """The type whose descriptor is at an ``address``: a `View`."""

    __slots__ = ("_table", "key", "kind")

    language = "go"

    def __init__(self, table: TypeTable, address: int) -> None:
        self._table, self.key = table, address
        self.kind = self._number(KIND, 1) & 31

    @property
    def form(self) -> FormOfType:
        if self.kind == UNSAFE_POINTER:
            return "pointer"
        return FORMS[self.kind][0] if self.kind in FORMS else "base"

    @property
    def name(self) -> str:
        return self._table.described_name(self.key)

    @property
    def written(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        return self._number(0, 8)

    @property
    def encoding(self) -> Encoding:
        return ENCODINGS.get(self.kind, "unsigned")

    @property
    def target(self) -> RuntimeTypeView | None:
        if self.kind not in (ARRAY, POINTER, SLICE):
            return None
        return RuntimeTypeView(self._table, self._table.memory.word(self.key + ELEMENT))

    @property
    def counts(self) -> Sequence[int | None]:
        return (self._number(COUNT, 8),)

    @property
    def members(self) -> Iterator[views.MemberView]:
        if self.kind == INTERFACE:
            first = "tab" if self._number(METHODS, 8) else "_type"
            yield views.MemberView(first, self, 0)  # of which the name counts
            return
        word, shift = self._table.memory.word, self._table.offset_shift
        fields, count = word(self.key + FIELDS), self._number(FIELDS + 8, 8)
        for at in range(fields, fields + FIELD * min(count, WIDEST), FIELD):
            type = RuntimeTypeView(self._table, word(at + TYPE_OF_FIELD))
            offset = word(at + OFFSET_OF_FIELD) >> shift
            yield views.MemberView(self._table.name_at(word(at)), type, offset)

    @property
    def is_direct(self) -> bool:
        """Whether an interface holds such a value in its own data word."""
        if self.kind == STRUCT:
            return [part.type.form in DIRECT for part in self.members] == [True]
        return self.kind in WORDS

    def _number(self, offset: int, size: int) -> int:
        return int.from_bytes(self._table.memory.read(self.key + offset, size), "little")
