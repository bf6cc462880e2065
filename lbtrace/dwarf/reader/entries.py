"""Units and their entries (DWARF 5, sections 7.5.1 and 7.5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lbtrace.dwarf.reader.abbreviations import Abbreviation, stepped
from lbtrace.dwarf.reader.forms import REFERENCES, SIGNATURE, SUPPLEMENTARY, Form, uleb
from lbtrace.dwarf.reader.headers import Header
from lbtrace.elf.debug_sections import DwarfError

if TYPE_CHECKING:
    from typing import Protocol

    from lbtrace.dwarf.reader.abbreviations import Table
    from lbtrace.dwarf.reader.bounds import Budget
    from lbtrace.elf.debug_sections import Section

    class File(Protocol):
        """What units need of their file: see `lbtrace.dwarf.reader.files.File`."""

        budget: Budget

        def section(self, name: str) -> Section: ...
        def table(self, header: Header) -> Table: ...
        def place(self, header: Header) -> int: ...
        def text(self, section: str, offset: int) -> bytes: ...
        def base(self, attribute: str, unit: Unit) -> int: ...
        def entry(self, offset: int) -> Entry: ...
        def type_of(self, signature: int) -> Entry: ...
        def supplementary(self) -> File: ...


ROOT = 4096
"""Bytes that hold a unit's own entry, if it has no long strings in place."""


class Attribute(NamedTuple):
    """The value of an attribute, and the name of its form."""

    value: Any
    form: str


class Unit:
    """A unit of a file. Its entries are read lazily, each once.

    ``raw`` are its bytes, and positions count from its header. Offsets, as
    references have them, count from the start of the section.
    """

    def __init__(self, file: File, header: Header, *, whole: bool = True) -> None:
        """Without ``whole`` only the entry of the unit itself can be read."""
        self.file = file
        self.budget = file.budget
        self.header = header
        self.version = header.version
        self.address_size = header.address_size
        self.offset_size = header.offset_size
        self.offset = header.offset
        self.skeleton: Unit | None = None
        """The unit of the program itself, if this one was split from it."""
        end = header.end if whole else min(header.end, header.offset + ROOT)
        self.raw = file.section(header.section).cut(header.offset, end)
        self._table = file.table(header)
        self._entries: dict[int, Entry] = {}
        self._ends: dict[int, int] = {}
        self._bases: dict[str, int] = {}

    @cached_property
    def root(self) -> Entry:
        """The entry of the unit itself."""
        return self.at(self.header.first)

    def at(self, position: int) -> Entry:
        """Return the entry at ``position``. Raises `DwarfError` where there cannot be one."""
        entry = self._entries.get(position)
        if entry is None:
            entry = self._entries[position] = self._read(position)
        return entry

    def _read(self, position: int) -> Entry:
        self.budget.spend(4)
        if not self.header.first <= position < len(self.raw):
            raise DwarfError(f"no entry at {position:#x}")
        code, at = uleb(self.raw, position)
        if not code:
            raise DwarfError(f"no entry at {position:#x}, but the end of a list")
        return Entry(self, position, self._table.get(code), at)

    def children(self, entry: Entry) -> Iterator[Entry]:
        """Yield the entries below ``entry``, those of a parameter pack (gcc) in its place."""
        if not entry.abbreviation.children:
            return
        at = stepped(self.raw, entry.start, entry.abbreviation.steps)
        while at < len(self.raw) and self.raw[at]:
            child = self.at(at)
            if child.tag == "DW_TAG_GNU_formal_parameter_pack":
                yield from self.children(child)
            else:
                yield child
            end = self._ends.get(at)
            if end is None:
                end = self._ends[at] = self._behind(child)
            at = end

    def _behind(self, entry: Entry) -> int:
        """The position of what follows ``entry`` on its level. Where DW_AT_sibling does not say it
        (rustc) all below is stepped over."""
        raw, table, budget = self.raw, self._table, self.budget
        abbreviation, at, depth = entry.abbreviation, entry.start, 0
        while True:
            if sibling := self._sibling(abbreviation, at):
                at = sibling
            else:
                at = stepped(raw, at, abbreviation.steps)
                depth += abbreviation.children
            while depth and at < len(raw) and not raw[at]:
                at += 1
                depth -= 1
            if not depth or at >= len(raw):
                return at
            budget.spend()
            code, at = uleb(raw, at)
            abbreviation = table.get(code)

    def _sibling(self, abbreviation: Abbreviation, at: int) -> int:
        """The position in DW_AT_sibling, if it lies ahead; 0 otherwise."""
        if abbreviation.sibling is None:
            return 0
        start = stepped(self.raw, at, abbreviation.sibling)
        sibling = int.from_bytes(self.raw[start : start + 4], "little")
        return sibling if start < sibling <= len(self.raw) else 0

    def functions(self, opened: frozenset[str] | None) -> Iterator[Entry]:
        """Yield the subprograms that have code, in order. With ``opened``, only entries of these
        tags are searched where that saves work; None searches all."""
        raw, end, table = self.raw, len(self.raw), self._table
        known, root = table.known, self.root
        at = stepped(raw, root.start, root.abbreviation.steps)
        count = 0
        while at < end:
            count += 1
            if not count & 0xFFF:
                self.budget.spend(0x1000)
            start, code = at, raw[at]
            at += 1
            if not code:
                continue
            if code >= 0x80:
                code, at = uleb(raw, start)
            each = known.get(code) or table.get(code)
            if each.is_function:
                self.budget.spend(6)
                yield Entry(self, start, each, at)
            if each.sibling is not None and opened is not None and each.tag not in opened:
                at = self._sibling(each, at) or stepped(raw, at, each.steps)
            else:
                at = at + each.size if each.size >= 0 else stepped(raw, at, each.steps)

    def tagged(self, tag: str) -> Iterator[Entry]:
        """Yield the entries with a tag, in order."""
        raw, table, root = self.raw, self._table, self.root
        at = stepped(raw, root.start, root.abbreviation.steps)
        while at < len(raw):
            start = at
            code, at = uleb(raw, at)
            if code:
                self.budget.spend()
                each = table.get(code)
                if each.tag == tag:
                    yield Entry(self, start, each, at)
                at = at + each.size if each.size >= 0 else stepped(raw, at, each.steps)

    def text(self, section: str, offset: int) -> bytes:
        """Return the string at ``offset`` of ``section``; ``sup`` is the supplementary file's."""
        return self.file.text(section, offset)

    def indexed_string(self, index: int) -> bytes:
        """Return the string of an index into ``.debug_str_offsets`` (section 7.26)."""
        base = self.base("DW_AT_str_offsets_base")
        size = self.offset_size
        table = self.file.section(".debug_str_offsets")
        return self.file.text(".debug_str", table.number(base + index * size, size))

    def indexed_address(self, index: int) -> int:
        """Return the address of an index into ``.debug_addr`` (section 7.27)."""
        owner = self.skeleton or self
        table = owner.file.section(".debug_addr")
        base = owner.base("DW_AT_addr_base", "DW_AT_GNU_addr_base")
        return table.number(base + index * self.address_size, self.address_size)

    def base(self, *names: str) -> int:
        """Return where the unit's part of a section begins, by its attribute for that."""
        if names[0] not in self._bases:
            # Other attributes may depend on this one: they are not read.
            root = self.root
            present = next((n for n in names if n in root.abbreviation.names), None)
            self._bases[names[0]] = (
                self.file.base(names[0], self) if present is None else root.get(present).value
            )
        return self._bases[names[0]]


class Entry:
    """An entry. Its attributes are read lazily."""

    __slots__ = ("_attributes", "abbreviation", "position", "start", "tag", "unit")

    def __init__(self, unit: Unit, position: int, abbreviation: Abbreviation, start: int) -> None:
        self.unit = unit
        self.position = position
        self.start = start
        self.abbreviation = abbreviation
        self.tag = abbreviation.tag
        self._attributes: dict[str, Attribute] | None = None

    @property
    def offset(self) -> int:
        """A number that no other entry of the debug information has."""
        return self.unit.file.place(self.unit.header) + self.position

    @property
    def attributes(self) -> dict[str, Attribute]:
        """All attributes by name. Raises `DwarfError` if one is damaged."""
        if self._attributes is None:
            unit, raw, at = self.unit, self.unit.raw, self.start
            found: dict[str, Attribute] = {}
            unit.budget.spend(1 + len(self.abbreviation.attributes))
            for declared in self.abbreviation.attributes:
                form = declared.form
                value, at = form.read(unit, raw, at)
                found[declared.name] = Attribute(_value(form, value, declared.value), form.name)
            if at > len(raw):
                raise DwarfError("an entry reaches out of its unit")
            self._attributes = found
        return self._attributes

    def get(self, name: str) -> Attribute:
        """Return one attribute, without reading the others. Raises `DwarfError` where there is
        none."""
        if self._attributes is not None and name in self._attributes:
            return self._attributes[name]
        raw, at = self.unit.raw, self.start
        for declared in self.abbreviation.attributes:
            if declared.name == name:
                value, _ = declared.form.read(self.unit, raw, at)
                return Attribute(_value(declared.form, value, declared.value), declared.form.name)
            at = stepped(raw, at, (declared.step,))
        raise DwarfError(f"no {name}")

    def has(self, name: str) -> bool:
        """Return whether there is an attribute ``name``."""
        return name in self.abbreviation.names

    def iter_children(self) -> Iterator[Entry]:
        """Return the entries below this one."""
        return self.unit.children(self)

    def get_DIE_from_attribute(self, name: str) -> Entry:
        """Return the entry that an attribute refers to, wherever it is.

        The name is the one that pyelftools uses. Raises `DwarfError` where there is none.
        """
        value, form = self.get(name)
        if form in REFERENCES:
            if not isinstance(value, int):
                raise DwarfError(f"{name} refers to nothing")
            position = value - self.unit.offset
            if 0 <= position < len(self.unit.raw):
                return self.unit.at(position)
            return self.unit.file.entry(value)
        if form == SIGNATURE:
            return self.unit.file.type_of(value)
        if form == SUPPLEMENTARY:
            return self.unit.file.supplementary().entry(value)
        raise DwarfError(f"{name} is no reference")


def _value(form: Form, value: Any, implicit: int) -> Any:
    return implicit if form.name == "DW_FORM_implicit_const" else value
