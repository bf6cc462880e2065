"""Variables that live as long as the program: global ones, and static ones of files and classes.

Addresses are those of the file. Which file's variable of a name the program uses, the loader
decides: code reaches one that it may choose through the GOT, and so do probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.dwarf_registers import program_counter
from lbtrace.abi.locations import OPTIMISED_OUT, Location
from lbtrace.dwarf import attributes
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.definitions import units_with
from lbtrace.dwarf.enclosing import qualified_name
from lbtrace.dwarf.enumerators import find_enumerators
from lbtrace.dwarf.named_types import find_types
from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.bounds import Budget, BudgetExceeded
from lbtrace.dwarf.reader.entries import Entry
from lbtrace.dwarf.sources import (
    DAMAGE,
    MOST,
    Declarations,
    open_debug_information,
    path_test,
    units_with_code,
)
from lbtrace.dwarf.variable_locations import TOO_COMPLEX, Place, Unreadable, constant, locate
from lbtrace.elf.data_symbols import find_objects, preempted
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import PT_TLS, Image
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.model import UNKNOWN, Fetch, Scalar, Type
from lbtrace.values.array import byte_array
from lbtrace.values.integer import fixed_width

ELSEWHERE = "another file defines it, and no word of this one leads there"
CHOSEN = "the loader may have chosen another file's, and no word of this one says it"


class GlobalVariable(NamedTuple):
    """A variable: its qualified ``name``, the source ``file`` that defines it, its type and its
    place, whose fetches have the base ``file``."""

    name: str
    file: str
    type: Type
    location: Location


class GlobalVariables:
    """Those of an image, found by name. Types are read as in `Types`."""

    def __init__(self, image: Image, depth: int, *, full_names: bool = False) -> None:
        self._image = image
        self._depth, self._full_names = depth, full_names
        self._known: dict[str, Sequence[GlobalVariable]] = {}
        self._enumerators: dict[str, dict[int, str]] = {}
        self._types: dict[str, list[Type]] = {}

    def find(self, name: str) -> Sequence[GlobalVariable]:
        """Return the variables that ``name`` means: ``x``, ``space::x`` or ``file.c::x``."""
        if name not in self._known:
            found: list[GlobalVariable] = []
            with suppress(BinaryError, BudgetExceeded):
                found = self._described(name)
            self._known[name] = found or self._undescribed(name)
        return self._known[name]

    def enumerators(self, name: str) -> Mapping[int, str]:
        """Return the numbers that ``name`` stands for as a constant of any enumeration, each with
        a qualified name of it."""
        if name not in self._enumerators:
            self._enumerators[name] = {}
            with suppress(BinaryError, BudgetExceeded):
                self._enumerators[name] = find_enumerators(self._image, name)
        return self._enumerators[name]

    def types(self, name: str) -> Sequence[Type]:
        """Return the types called ``name``, one of each size."""
        if name not in self._types:
            self._types[name] = []
            with suppress(BinaryError, BudgetExceeded):
                depth, full_names = self._depth, self._full_names
                self._types[name] = find_types(self._image, name, depth, full_names=full_names)
        return self._types[name]

    @cached_property
    def names(self) -> list[str]:
        """The names of all that debug information has, as far as they are known soon."""
        found: dict[str, None] = {}
        with suppress(BinaryError, BudgetExceeded):
            file, companions = open_debug_information(self._image, Budget(MOST))
            for light in units_with_code(file):
                with suppress(*DAMAGE):
                    unit = companions.whole(file.unit_at(light.offset))
                    found.update(dict.fromkeys(_name(e) for e in _variables(unit.root)))
        return [name for name in found if name]

    def _described(self, name: str) -> list[GlobalVariable]:
        """Those of debug information, one for each address."""
        file, companions = open_debug_information(self._image, Budget(MOST))
        source, path = _split(name)
        last = path if "." in path else path.rpartition("::")[2]
        defined: dict[tuple[str, Location], GlobalVariable] = {}
        declared: dict[tuple[str, Location], GlobalVariable] = {}
        declarations = Declarations()
        for light in units_with(file, last.encode()):
            with suppress(*DAMAGE):
                unit = companions.whole(light)
                types = Types(
                    unit.root, self._depth, self._image.machine, full_names=self._full_names
                )
                for entry in _variables(unit.root):
                    qualified = _name(entry)
                    if not _fits(qualified, path):
                        continue
                    files = declarations.file_of(entry), attributes.text(unit.root, "DW_AT_name")
                    if source and not any(map(path_test(source), filter(None, files))):
                        continue
                    made = self._variable(entry, qualified, files[0] or files[1], types)
                    group = declared if _is_declared(entry) else defined
                    group.setdefault((qualified, made.location), made)
        found = [*(defined or declared).values()]
        return [each for each in found if each.name == path] or found

    def _variable(self, entry: Entry, name: str, file: str, types: Types) -> GlobalVariable:
        chain = origins(entry)
        typed = next((e for e in chain if e.has("DW_AT_type")), None)
        formal = types.formal(name, typed)
        symbol = attributes.linkage_name(chain) or name
        located = next((e for e in chain if e.has("DW_AT_location")), None)
        external = any(e.has("DW_AT_external") for e in chain)
        if external and symbol in self._slots:
            location = _through(self._slots[symbol])
        elif _is_declared(entry):
            location = Location(reason=ELSEWHERE)
            if (objects := find_objects(self._image, symbol)) and len(objects) == 1:
                location = _at(objects[0].address)  # the linker copied it into the program
        elif external and located is not None and self._may_be_preempted(symbol):
            location = Location(reason=CHOSEN)
        elif located is not None:
            location = self._located(located, formal.scalars)
        else:
            fixed = next((e for e in chain if e.has("DW_AT_const_value")), None)
            value = fixed.get("DW_AT_const_value").value if fixed is not None else None
            location = Location(reason=OPTIMISED_OUT)
            location = constant(value) if isinstance(value, int) else location
        return GlobalVariable(name, file, formal.type, location)

    def _located(self, entry: Entry, scalars: Sequence[Scalar] | None) -> Location:
        """The location that debug information gives, with fetches of the file."""

        def cfa() -> Fetch:
            raise Unreadable(TOO_COMPLEX)

        place = Place(entry.unit, self._image.machine, 0, b"", cfa, thread_local=self._thread_local)
        found = locate(lists.expression(entry, 0), place, scalars)
        here = program_counter(self._image.machine)

        def moved(fetch: Fetch) -> Fetch:
            return replace(fetch, base="file", register="") if fetch.register == here else fetch

        words = tuple(w if isinstance(w, str) else moved(w) for w in found.words)
        return replace(found, words=words, memory=moved(found.memory) if found.memory else None)

    def _thread_local(self, offset: int) -> Fetch:
        """What fetches the address of a thread-local variable. Raises `Unreadable` if only the
        loader knows it."""
        image = self._image
        block = next((s for s in image.segments if s.type == PT_TLS), None)
        if block is None or not image.is_program:
            raise Unreadable("thread-local in a library: where, only the loader knows")
        start = Machine(image.machine).linking.thread_block(block.memory, max(1, block.alignment))
        return Fetch(base="thread", offset=start + offset)

    def _undescribed(self, name: str) -> list[GlobalVariable]:
        """Those of the symbol table, as integers of their size, or bytes."""
        source, path = _split(name)
        parts = path.split("::")
        mangled = f"_ZN{''.join(f'{len(part)}{part}' for part in parts)}E"
        symbol = path if len(parts) == 1 else mangled
        if source:
            return []
        if symbol in self._slots:
            return [GlobalVariable(path, "", UNKNOWN, _through(self._slots[symbol]))]
        found = []
        for each in find_objects(self._image, symbol):
            known = _at(each.address)
            if self._may_be_preempted(symbol):
                known = Location(reason=CHOSEN)
            found.append(GlobalVariable(path, "", _untyped(each.size), known))
        return found

    @property
    def _slots(self) -> Mapping[str, int]:
        return self._image.once(_slots)

    def _may_be_preempted(self, symbol: str) -> bool:
        return not self._image.is_program and preempted(self._image, symbol)


def _slots(image: Image) -> Mapping[str, int]:
    """The words of the GOT by the names of the symbols whose addresses they hold."""
    dynamic = image.once(Dynamic)
    return {dynamic.bound(symbol)[0]: at for at, symbol in dynamic.slots.items()}


def _at(address: int) -> Location:
    return Location(memory=Fetch(base="file", offset=address))


def _through(slot: int) -> Location:
    return Location(memory=Fetch(base="file", offset=slot, derefs=(0,)))


def _untyped(size: int) -> Type:
    if size == UNKNOWN.size:
        return UNKNOWN
    if size in (1, 2, 4):
        return fixed_width(size, signed=True)
    return byte_array(size)


def _split(name: str) -> tuple[str, str]:
    """The source file that a name begins with, if any, and what is named in it."""
    first, _, rest = name.partition("::")
    if rest and "." in first:
        return first, rest
    path = name.removeprefix("::")
    return "", path.removeprefix("crate::")


def _fits(qualified: str, path: str) -> bool:
    return qualified == path or qualified.endswith((f"::{path}", f"/{path}"))


def _variables(level: Entry) -> Iterator[Entry]:
    """The variables in a unit that are in no function."""
    for child in level.iter_children():
        if child.tag == "DW_TAG_variable":
            yield child
        elif child.tag in attributes.NAMESPACES:
            yield from _variables(child)


def _name(entry: Entry) -> str:
    chain = origins(entry)
    named = next((e for e in chain if e.has("DW_AT_name")), None)
    return "" if named is None else qualified_name(chain[-1])


def _is_declared(entry: Entry) -> bool:
    return entry.has("DW_AT_declaration")
