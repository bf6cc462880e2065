"""Abbreviation tables: which attributes entries have, in which forms (DWARF 5, section 7.5.3).

Tables are read lazily. Each abbreviation knows how to skip its entries without reading them, which
is most of the work of finding one function among a million entries.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

from lbtrace.dwarf.reader.bounds import Budget
from lbtrace.dwarf.reader.forms import (
    ADDRESS,
    FORMS,
    IMPLICIT_CONST,
    OFFSET,
    Form,
    sleb,
    uleb,
)
from lbtrace.dwarf.reader.names import ATTRIBUTES, TAGS
from lbtrace.elf.debug_sections import DwarfError, Section

CHUNK = 4096
"""Bytes of a table that are read at first."""

DEFINITION = re.compile(
    rb"""([\x80-\xff]{0,9}[\x01-\x7f])           # code, not zero
    ([\x80-\xff]{0,9}[\x00-\x7f][\x00\x01]      # tag, children
    (?:[\x80-\xff]{0,9}[\x01-\x7f]             # name, not zero
       (?:\x21[\x80-\xff]{0,9}[\x00-\x7f]      # an implicit constant with its value
         |[\x01-\x20\x22-\x7f]|[\x80-\xff]{1,9}[\x00-\x7f])){0,1000}
    \x00\x00)""",
    re.VERBOSE | re.DOTALL,
)
"""An abbreviation; the zero bytes end it. Compilers give some thirty attributes."""

ULEB, TEXT, BLOCK1, BLOCK2, BLOCK4, BLOCK = range(-1, -7, -1)
"""Steps over values that contain their own size; other steps are the size."""

SELF_DESCRIBED = {
    **{0x03: BLOCK2, 0x04: BLOCK4, 0x08: TEXT, 0x09: BLOCK, 0x0A: BLOCK1, 0x18: BLOCK},
    **dict.fromkeys((0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02), ULEB),
}
REF_ADDR = 0x10

CODE = ("DW_AT_low_pc", "DW_AT_ranges")

Steps: TypeAlias = "tuple[int, ...]"


class Declared(Struct, frozen=True):
    """An attribute of an abbreviation: the value is that of an implicit
    constant, ``step`` leads over the value in the entry."""

    name: str
    form: Form
    value: int
    step: int


class Sizes(Struct, frozen=True):
    """What the size of a value depends on."""

    address: int
    offset: int
    version: int

    def of(self, code: int, form: Form) -> int:
        """Return the step over a value of ``form``."""
        if code == REF_ADDR:
            return self.address if self.version == 2 else self.offset
        if form.size == ADDRESS:
            return self.address
        if form.size == OFFSET:
            return self.offset
        return form.size if form.size >= 0 else SELF_DESCRIBED[code]


class Abbreviation:
    """What the entries of one code have in common.

    ``steps`` lead over an entry; ``size`` is their sum, or -1 if that varies.
    ``sibling`` leads to the reference to the next entry, where there is one.
    ``is_function`` is set for functions that have code.
    """

    __slots__ = (
        *("attributes", "children", "is_function", "names", "sibling", "size", "steps", "tag"),
    )

    def __init__(self, tag: str, children: bool, read: list[tuple[str, int, int]], sizes: Sizes):
        self.tag = tag
        self.children = children
        self.attributes = tuple(_declared(*each, sizes) for each in read)
        self.names = frozenset(d.name for d in self.attributes)
        each = [d.step for d in self.attributes]
        self.steps = _joined(each)
        self.size = -1 if any(s < 0 for s in self.steps) else sum(self.steps)
        self.is_function = tag == "DW_TAG_subprogram" and not self.names.isdisjoint(CODE)
        names = [name for name, _, _ in read]
        at = names.index("DW_AT_sibling") if "DW_AT_sibling" in names else -1
        near = at >= 0 and children and read[at][1] == 0x13  # DW_FORM_ref4, as all write it
        self.sibling: Steps | None = _joined(each[:at]) if near else None


def _joined(steps: list[int]) -> Steps:
    """Neighbouring fixed steps as one."""
    found: list[int] = []
    for step in steps:
        if step >= 0 and found and found[-1] >= 0:
            found[-1] += step
        else:
            found.append(step)
    return tuple(found)


def _declared(name: str, code: int, value: int, sizes: Sizes) -> Declared:
    if code == IMPLICIT_CONST:
        return Declared(name, IMPLICIT, value, 0)
    form = FORMS.get(code)
    if form is None:
        raise DwarfError(f"form {code:#x} is not known")
    return Declared(name, form, 0, sizes.of(code, form))


IMPLICIT = Form("DW_FORM_implicit_const", 0, lambda unit, raw, at: (0, at))


def stepped(raw: bytes, at: int, steps: Steps) -> int:
    """Return the position after ``steps``."""
    for step in steps:
        if step >= 0:
            at += step
        elif step == ULEB:
            while raw[at] >= 0x80:
                at += 1
            at += 1
        elif step == BLOCK:
            size, at = uleb(raw, at)
            at += size
        elif step == TEXT:
            end = raw.find(b"\0", at)
            if end < 0:
                raise DwarfError("a string without end")
            at = end + 1
        else:
            wide = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}[step]
            at += wide + int.from_bytes(raw[at : at + wide], "little")
    return at


class Table:
    """The table of abbreviations that begins at ``start`` of ``section``.

    Most tables have the same abbreviations under other codes; ``made`` holds
    those that are known from any of them, by what defines them.
    """

    def __init__(
        self,
        section: Section,
        start: int,
        sizes: Sizes,
        budget: Budget,
        made: dict[tuple[Sizes, bytes], Abbreviation],
    ) -> None:
        self._section = section
        self._start = start
        self._raw = section.cut(start, start + CHUNK)
        self._at = 0
        self._sizes = sizes
        self._budget = budget
        self._made = made
        self._defined: dict[int, bytes] = {}
        self.known: dict[int, Abbreviation] = {}
        """The abbreviations that have been read, by code."""

    def get(self, code: int) -> Abbreviation:
        """Return the abbreviation ``code``. Raises `DwarfError` where there is none."""
        if code not in self.known:
            while code not in self._defined:
                self._read_on()
            key = (self._sizes, self._defined[code])
            if key not in self._made:
                self._budget.spend(len(self._defined[code]))
                self._made[key] = _made(self._defined[code], self._sizes)
            self.known[code] = self._made[key]
        return self.known[code]

    def _read_on(self) -> None:
        found = DEFINITION.match(self._raw, self._at)
        if found is not None:
            self._budget.spend(4 + len(found[2]) // 16)
            code, _ = uleb(found[1], 0)
            self._defined.setdefault(code, found[2])
            self._at = found.end()
            return
        have = len(self._raw)
        if self._raw[self._at : self._at + 1] != b"\0":  # perhaps the chunk only ends here
            self._raw = self._section.cut(self._start, self._start + 4 * have)
        if len(self._raw) == have:
            raise DwarfError("an abbreviation is not known")


def _made(raw: bytes, sizes: Sizes) -> Abbreviation:
    tag, at = uleb(raw, 0)
    children, at = raw[at], at + 1
    read: list[tuple[str, int, int]] = []
    while True:
        name, at = uleb(raw, at)
        form, at = uleb(raw, at)
        if not name:
            break
        value = 0
        if form == IMPLICIT_CONST:
            value, at = sleb(raw, at)
        read.append((ATTRIBUTES.get(name) or f"DW_AT_{name:#x}", form, value))
    return Abbreviation(TAGS.get(tag) or f"DW_TAG_{tag:#x}", bool(children), read, sizes)
