"""The variables that are in scope at an address, innermost first.

Source: DWARF 5, sections 3.3 to 3.5 and 4.1.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lbtrace.abi.dwarf_registers import find_register
from lbtrace.abi.locations import OPTIMISED_OUT, Location, moved
from lbtrace.dwarf import attributes, location_views, producers
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.passing import Types
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.entries import Entry, Unit
from lbtrace.dwarf.sources import DAMAGE
from lbtrace.dwarf.variable_locations import (
    TOO_COMPLEX,
    Place,
    Unreadable,
    constant,
    locate,
)
from lbtrace.elf.debug_sections import DwarfError
from lbtrace.elf.image import Image
from lbtrace.elf.unwind import Unwind
from lbtrace.model import Fetch, Formal, Scalar
from lbtrace.values import Type

BLOCKS = frozenset({"DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"})
CHANGES = "changes at this instruction"
"""Of what has one value where a line begins and another after it, with no instruction between."""

VARIABLES = frozenset({"DW_TAG_variable", "DW_TAG_formal_parameter"})


class Variable(NamedTuple):
    """A variable: its name and type as a ``formal``, and its ``location``."""

    formal: Formal
    location: Location


class _Block(NamedTuple):
    """A block, with the ranges of its code."""

    entry: Entry
    ranges: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Bytes of its code."""
        return sum(high - low for low, high in self.ranges)


class FrameBases:
    """Finds the canonical frame addresses of an image; ``debug_frame`` is the section of that
    name."""

    def __init__(self, image: Image, debug_frame: bytes) -> None:
        from lbtrace.elf.frame_rules import Frames  # imported here because it imports pyelftools

        self._machine = image.machine
        self._unwind = Unwind(image)
        section = image.section(".eh_frame")
        self._start = section.address if section else 0
        self._frames = Frames(image.content(section), section.address) if section else None
        self._debug = Frames(debug_frame)

    def find(self, address: int) -> Fetch:
        """What fetches the CFA at ``address``. Raises `Unreadable`."""
        try:
            at = self._unwind.description_of(address)
            found = None
            if at is not None and self._frames is not None:
                found = self._frames.find(address, at - self._start)
            found = found or self._debug.find(address)
        except DwarfError:
            found = None
        if found is None or found.register < 0:
            raise Unreadable(TOO_COMPLEX)
        held = find_register(self._machine, found.register)
        if isinstance(held, str):
            raise Unreadable(held)
        return moved(held, found.offset)


ALL_CALLS = ("DW_AT_call_all_calls", "DW_AT_GNU_all_call_sites")
"""What gcc and clang say of functions that they optimised, and gcc of others that call nothing."""


UNNAMED = re.compile(r"_|~p\d+")
"""What Go calls parameters that nothing can name. They come in registers, and keep them; 1.27 gives
the slots where registers are saved as the stack grows, to which nothing else writes."""


class Scopes:
    """The functions of a unit, and what is in scope in them."""

    def __init__(self, unit: Unit, types: Types, frames: FrameBases) -> None:
        self._unit = unit
        producer = attributes.text(unit.root, "DW_AT_producer")
        self._optimises = producers.optimises(producer)
        self._splits = producers.optimises_go(producer)
        self._is_go = producers.is_go(producer)
        self._types = types
        self._frames = frames
        rows: list[tuple[int, int, Entry]] = []
        for entry in unit.functions(None):
            try:
                rows += [(low, high, entry) for low, high in lists.ranges(entry) if low < high]
            except DAMAGE:
                continue
        rows.sort(key=lambda row: row[0])
        self._rows = rows
        self._lows = [low for low, _, _ in rows]
        self._inner: dict[int, list[_Block]] = {}

    def is_optimised(self, function: Entry) -> bool:
        """Whether the compiler has optimised a function, so that lists of locations tell where its
        variables are from its first instruction on."""
        if not self._optimises or any(function.has(name) for name in ALL_CALLS):
            return self._optimises
        # gcc says nothing of some that it optimised. Of others each parameter has a place.
        homes = [lists.home(each, function) for each in _formals(function)]
        return not homes or None in homes

    def function(self, address: int) -> Entry | None:
        """The function with the code at ``address``."""
        at = bisect_right(self._lows, address) - 1
        if at < 0 or address >= self._rows[at][1]:
            return None
        return self._rows[at][2]

    def path(self, address: int) -> list[Entry]:
        """The function, and the blocks in it that hold ``address``, outermost first."""
        function = self.function(address)
        if function is None:
            return []
        # gcc moves the entry of a block out of the block around it, and lists it beside that
        # one, which still has the same code: the outer one has more.
        inner = sorted(self._blocks(function, address), key=lambda block: -block.size)
        return [function, *(block.entry for block in inner)]

    def _blocks(self, entry: Entry, address: int) -> Iterator[_Block]:
        """The blocks in ``entry`` that hold ``address``, each before those in it."""
        blocks = self._inner.get(entry.offset)
        if blocks is None:
            blocks = self._inner[entry.offset] = list(_blocks(entry))
        for block in blocks:
            if any(low <= address < high for low, high in block.ranges):
                yield block
                yield from self._blocks(block.entry, address)

    def title(self, address: int) -> str:
        """The name of the function, inlined or not, that the code at ``address`` is of."""
        for entry in reversed(self.path(address)):
            if entry.tag != "DW_TAG_lexical_block":
                return next(filter(None, (text(e, "DW_AT_name") for e in origins(entry))), "")
        return ""

    def variables(self, address: int, view: int = -1) -> list[Variable]:
        """The variables in scope at ``address``, those of the innermost block first; of a block
        inlined from another function only that one's. ``view`` is that of the address at which
        a line begins, -1 if it is not known."""
        path = self.path(address)
        if not path:
            return []
        place = self._place(path[0], address)._replace(view=view, line=True)
        moved = {origins(e)[1].offset: e for e in _moved(path[0])} if len(path) > 1 else {}
        seen: set[int] = set()
        found: list[Variable] = []
        for block in reversed(path):
            found += self._declared(block, place, moved, seen)
            if block.tag == "DW_TAG_inlined_subroutine":
                break
        return found

    def parameters(self, block: Entry, address: int) -> list[Variable]:
        """The parameters of a function that is inlined as ``block``, at ``address``."""
        function = self.function(address)
        if function is None:
            return []
        place = self._place(function, address)._replace(view=location_views.entry_view(block))
        own = {each.offset: entry for entry in _formals(block) for each in origins(entry)[1:2]}
        declared = _formals(origins(block)[1])  # in order; of some nothing is left in the copy
        found = (self._variable(origins(own.get(each.offset, each)), place) for each in declared)
        return [each for each in found if each]

    def _place(self, function: Entry, address: int) -> Place:
        frame_base = b""
        if function.has("DW_AT_frame_base"):
            frame_base = lists.expression(function, address, "DW_AT_frame_base")
        return Place(
            self._unit,
            self._types.machine,
            address,
            frame_base,
            lambda: self._frames.find(address),
        )

    def _declared(
        self, block: Entry, place: Place, moved: Mapping[int, Entry], seen: set[int]
    ) -> Iterator[Variable]:
        """The variables that are declared in a block, without those that were ``seen`` in another.
        ``moved`` are those that the compiler may have taken out of it, by their origins."""
        for entry in block.iter_children():
            if entry.tag in VARIABLES and entry.offset not in seen:
                chain = origins(entry)
                seen.update(each.offset for each in chain)
                if variable := self._variable(chain, place):
                    yield variable
        for abstract in origins(block)[1:2]:
            for entry in abstract.iter_children():
                if entry.tag in VARIABLES and entry.offset not in seen:
                    chain = origins(moved.get(entry.offset, entry))  # else nothing is left of it
                    seen.update(each.offset for each in chain)
                    if variable := self._variable(chain, place):
                        yield variable

    def _variable(self, chain: list[Entry], place: Place) -> Variable | None:
        name = next(filter(None, (text(e, "DW_AT_name") for e in chain)), "")
        declared = next((e for e in chain if e.has("DW_AT_type")), None)
        located = next((e for e in chain if e.has("DW_AT_location")), None)
        parameter = chain[0].tag == "DW_TAG_formal_parameter"
        if not (name or parameter) or any(e.has("DW_AT_declaration") for e in chain):
            return None
        formal = self._types.formal(name, declared)
        location = self._location(chain, located, formal, declared, place)
        return Variable(formal, location)

    def _location(
        self,
        chain: list[Entry],
        located: Entry | None,
        formal: Formal,
        declared: Entry | None,
        place: Place,
    ) -> Location:
        if located is None:
            fixed = next((e for e in chain if e.has("DW_AT_const_value")), None)
            value: Any = fixed.get("DW_AT_const_value").value if fixed is not None else None
            return constant(value) if isinstance(value, int) else Location(reason=OPTIMISED_OUT)
        if declared is not None and _varies(declared):
            return Location(reason="its size is known only at run time")
        find = location_views.expression_of_line if place.line else location_views.expression
        expression = find(located, place.address, place.view)
        if expression is None:
            return Location(reason=CHANGES)
        scalars = formal.scalars
        if scalars is None:  # how it is passed is unknown, and does not matter here
            scalars = tuple(_numbers(formal.type, 0, attributes.DEPTH))
        listed = located.get("DW_AT_location").form not in lists.EXPRESSIONS
        if self._is_go and not listed and UNNAMED.fullmatch(formal.name):
            return Location(reason=OPTIMISED_OUT)
        return locate(expression, place, scalars, split=self._splits and listed)


def _formals(entry: Entry) -> Iterator[Entry]:
    return (each for each in entry.iter_children() if each.tag == "DW_TAG_formal_parameter")


def _varies(declared: Entry) -> bool:
    """Whether a variable is an array whose length the program computes (C99)."""
    bare = attributes.bare(attributes.type_of(declared))
    if bare is None or bare.tag != "DW_TAG_array_type":
        return False
    return any(
        child.has("DW_AT_upper_bound") and not isinstance(child.get("DW_AT_upper_bound").value, int)
        for child in bare.iter_children()
    )


def _numbers(type: Type, offset: int, depth: int) -> Iterator[Scalar]:
    """The numbers that a value consists of. What is no record counts as one."""
    parts = type.components() if depth else None
    if parts is None:
        yield Scalar(offset, type.size, "integer")
        return
    for part in parts:
        yield from _numbers(part.type, offset + part.offset, depth - 1)


def _blocks(entry: Entry) -> Iterator[_Block]:
    """The blocks right inside ``entry``."""
    for child in entry.iter_children():
        if child.tag in BLOCKS:
            try:
                yield _Block(child, tuple(lists.ranges(child)))
            except DAMAGE:
                continue


def _moved(function: Entry) -> Iterator[Entry]:
    """The static variables of inner blocks that gcc lists as those of the function, in a copy of it
    that has an origin."""
    for entry in function.iter_children():
        if entry.tag == "DW_TAG_variable" and len(origins(entry)) > 1:
            yield entry


def text(entry: Entry, name: str) -> str:
    """Return an attribute that is a string; empty where there is none."""
    if not entry.has(name):
        return ""
    value = entry.get(name).value
    return os.fsdecode(value) if isinstance(value, bytes) else ""
