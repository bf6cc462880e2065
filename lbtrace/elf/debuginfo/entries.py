"""Units and their entries (DWARF 5, sections 7.5.1 and 7.5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lbtrace.elf.debuginfo.abbreviations import Abbreviation, stepped
from lbtrace.elf.debuginfo.bounds import DwarfError
from lbtrace.elf.debuginfo.forms import REFERENCES, SIGNATURE, SUPPLEMENTARY, Form, uleb
from lbtrace.elf.debuginfo.headers import Header

if TYPE_CHECKING:
    from lbtrace.elf.debuginfo.files import File

ROOT = 4096
"""Bytes that hold a unit's own entry, if it has no long strings in place."""


class Attribute(NamedTuple):
    """The value of an attribute, and the name of its form."""

    value: Any
    form: str


class Unit:
    """A unit of a file. Its entries are read when they are asked for, each once.

    ``raw`` are its bytes, and positions count from its header. Offsets, as
    references have them, count from the start of the section.
    """

    def __init__(self, file: File, header: Header, *, whole: bool = True) -> None:
        """Without ``whole`` only the entry of the unit itself can be read."""
        self.file = file
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
        self._bases: dict[str, int] = {}

    @cached_property
    def root(self) -> Entry:
        """The entry of the unit itself."""
        return self.at(self.header.first)

    def at(self, position: int) -> Entry:
        """The entry at ``position``. Raises `DwarfError` where there cannot be one."""
        entry = self._entries.get(position)
        if entry is None:
            entry = self._entries[position] = self._read(position)
        return entry

    def _read(self, position: int) -> Entry:
        self.file.budget.spend(4)
        if not self.header.first <= position < len(self.raw):
            raise DwarfError(f"no entry at {position:#x}")
        code, at = uleb(self.raw, position)
        if not code:
            raise DwarfError(f"no entry at {position:#x}, but the end of a list")
        return Entry(self, position, self._table.get(code), at)

    def children(self, entry: Entry) -> Iterator[Entry]:
        """The entries below ``entry``."""
        if not entry.abbreviation.children:
            return
        at = stepped(self.raw, entry.start, entry.abbreviation.steps)
        while at < len(self.raw) and self.raw[at]:
            child = self.at(at)
            yield child
            at = self._behind(child)

    def _behind(self, entry: Entry) -> int:
        """The position of what follows ``entry`` on its level."""
        raw, table, budget = self.raw, self._table, self.file.budget
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
        """The position that DW_AT_sibling tells, if it lies ahead; 0 otherwise."""
        if abbreviation.sibling is None:
            return 0
        start = stepped(self.raw, at, abbreviation.sibling)
        told = int.from_bytes(self.raw[start : start + 4], "little")
        return told if start < told <= len(self.raw) else 0

    def functions(self, opened: frozenset[str] | None) -> Iterator[Entry]:
        """The subprograms that have code, in order. Only entries of the tags
        ``opened`` are looked into where that spares work; None looks into all."""
        raw, end, table = self.raw, len(self.raw), self._table
        known, root = table.known, self.root
        at = stepped(raw, root.start, root.abbreviation.steps)
        count = 0
        while at < end:
            count += 1
            if not count & 0xFFF:
                self.file.budget.spend(0x1000)
            start, code = at, raw[at]
            at += 1
            if not code:
                continue
            if code >= 0x80:
                code, at = uleb(raw, start)
            each = known.get(code) or table.get(code)
            if each.is_function:
                yield Entry(self, start, each, at)
            if each.sibling is not None and opened is not None and each.tag not in opened:
                at = self._sibling(each, at) or stepped(raw, at, each.steps)
            else:
                at = at + each.size if each.size >= 0 else stepped(raw, at, each.steps)

    def text(self, section: str, offset: int) -> bytes:
        """The string at ``offset`` of ``section``; ``sup`` is the supplementary file's."""
        return self.file.text(section, offset)

    def indexed_string(self, index: int) -> bytes:
        """The string of an index into ``.debug_str_offsets`` (section 7.26)."""
        base = self.base("DW_AT_str_offsets_base")
        size = self.offset_size
        table = self.file.section(".debug_str_offsets")
        return self.file.text(".debug_str", table.number(base + index * size, size))

    def indexed_address(self, index: int) -> int:
        """The address of an index into ``.debug_addr`` (section 7.27)."""
        owner = self.skeleton or self
        table = owner.file.section(".debug_addr")
        base = owner.base("DW_AT_addr_base", "DW_AT_GNU_addr_base")
        return table.number(base + index * self.address_size, self.address_size)

    def base(self, *names: str) -> int:
        """Where the unit's part of a section begins, by the attribute that tells it."""
        if names[0] not in self._bases:
            # Other attributes may depend on this one: they are not read.
            root = self.root
            told = next((n for n in names if n in root.abbreviation.names), None)
            self._bases[names[0]] = (
                self.file.base(names[0], self) if told is None else root.get(told).value
            )
        return self._bases[names[0]]


class Entry:
    """An entry. Its attributes are read when they are asked for."""

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
            unit.file.budget.spend(1 + len(self.abbreviation.attributes))
            for declared in self.abbreviation.attributes:
                form = declared.form
                value, at = form.read(unit, raw, at)
                found[declared.name] = Attribute(_value(form, value, declared.value), form.name)
            if at > len(raw):
                raise DwarfError("an entry reaches out of its unit")
            self._attributes = found
        return self._attributes

    def get(self, name: str) -> Attribute:
        """One attribute, without a look at the others. Raises `DwarfError` where
        there is none."""
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
        """Whether there is an attribute ``name``."""
        return name in self.abbreviation.names

    def iter_children(self) -> Iterator[Entry]:
        """The entries below this one."""
        return self.unit.children(self)

    def get_DIE_from_attribute(self, name: str) -> Entry:
        """The entry that an attribute refers to, wherever it is. (As pyelftools names it.)

        Raises `DwarfError` where there is none.
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
        if form in SUPPLEMENTARY:
            return self.unit.file.supplementary().entry(value)
        raise DwarfError(f"{name} is no reference")


def _value(form: Form, value: Any, implicit: int) -> Any:
    return implicit if form.name == "DW_FORM_implicit_const" else value
