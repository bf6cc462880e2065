"""Line tables: the source files of a unit, and which line each instruction is of.

Sources: DWARF 5, section 6.2; DWARF 2 to 4, section 6.2, for older file tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from lbtrace.dwarf.reader.entries import Unit
from lbtrace.dwarf.reader.forms import FORMS, sleb, uleb
from lbtrace.elf.debug_sections import DwarfError

CONTENT_PATH, CONTENT_DIRECTORY = 1, 2
"""DW_LNCT_path, DW_LNCT_directory_index."""

COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE = 1, 2, 3, 4
NEGATE, CONST_ADD_PC, FIXED_ADVANCE_PC, SET_PROLOGUE_END = 6, 8, 9, 10
"""DW_LNS_*: the standard opcodes that change what rows say."""

END_SEQUENCE, SET_ADDRESS = 1, 2
"""DW_LNE_*: the extended ones."""

LONGEST = 64 << 20
"""Bytes of a table; longer ones are damaged."""


class Row(NamedTuple):
    """From ``address`` on instructions are of ``line`` of the file with this number. Where
    ``is_statement``, a breakpoint on the line belongs here. An ``end`` is the first address
    after a sequence, and of no line. ``after_prologue``: a breakpoint on the function belongs
    here."""

    address: int
    file: int
    line: int
    is_statement: bool
    end: bool = False
    after_prologue: bool = False


class LineTable:
    """The line table of a unit, whose header has been read.

    ``files`` are the paths of its files by their number, with the directory that the unit was
    compiled in. Raises `DwarfError` where the header is damaged.
    """

    def __init__(self, unit: Unit, offset: int) -> None:
        section = unit.file.section(".debug_line")
        head = section.cut(offset, offset + 12)
        length, at, self._wide = int.from_bytes(head[:4], "little"), 4, 4
        if length == 0xFFFFFFFF:
            length, at, self._wide = int.from_bytes(head[4:12], "little"), 12, 8
        end = offset + at + length
        if length > LONGEST or end > section.size:
            raise DwarfError("a line table reaches out of its section")
        self._unit = unit
        self._raw = raw = section.cut(offset, end)
        unit.budget.spend(20 + (len(raw) >> 8))
        self.version, at = self._number(at, 2), at + 2
        if not 2 <= self.version <= 5:
            raise DwarfError(f"a line table of version {self.version}")
        if self.version >= 5:
            at += 2  # sizes of addresses and of segments
        header, at = self._number(at, self._wide), at + self._wide
        self._program = at + header
        self._least, at = raw[at], at + 1
        if self.version >= 4:  # operations of an instruction: more than one only in VLIW code
            at += 1
        self._default = bool(raw[at])
        self._base = int.from_bytes(raw[at + 1 : at + 2], "little", signed=True)
        self._range, self._opcodes = raw[at + 2], raw[at + 3]
        self._operands = raw[at + 4 : at + 3 + self._opcodes]
        if not self._range or self._program > len(raw):
            raise DwarfError("the header of a line table is damaged")
        at += 3 + self._opcodes
        named = self._listed(at) if self.version >= 5 else self._listed_before_5(at)
        self.files = tuple(named)

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self._raw[at : at + size], "little")

    def _listed(self, at: int) -> list[str]:
        """The files of DWARF 5, counted from 0."""
        directories, at = self._entries(at)
        files, _ = self._entries(at)
        built = directories[0][0] if directories else _built(self._unit)
        paths = [os.path.join(built, name) for name, _ in directories]
        found = []
        for name, directory in files:
            into = paths[directory] if directory < len(paths) else built
            found.append(os.path.normpath(os.path.join(into, name)))
        return found

    def _entries(self, at: int) -> tuple[list[tuple[str, int]], int]:
        """Names, each with the number of its directory, and the position after them."""
        raw, unit = self._raw, self._unit
        columns: list[tuple[int, int]] = []
        count, at = raw[at], at + 1
        for _ in range(count):
            content, at = uleb(raw, at)
            form, at = uleb(raw, at)
            columns.append((content, form))
        entries, at = uleb(raw, at)
        if entries and not columns:
            raise DwarfError("a table of files without columns")
        found: list[tuple[str, int]] = []
        for _ in range(entries):
            unit.budget.spend(len(columns))
            if at >= len(raw):
                raise DwarfError("a table of files reaches out of its section")
            name, directory = "", 0
            for content, form in columns:
                if form not in FORMS:
                    raise DwarfError(f"form {form:#x} is not known")
                value, at = FORMS[form].read(unit, raw, at)
                if content == CONTENT_PATH and isinstance(value, bytes):
                    name = os.fsdecode(value)
                elif content == CONTENT_DIRECTORY and isinstance(value, int):
                    directory = value
            found.append((name, directory))
        return found, at

    def _listed_before_5(self, at: int) -> list[str]:
        """The files of DWARF 2 to 4, counted from 1: before them stands the unit's own."""
        raw, unit, built = self._raw, self._unit, _built(self._unit)
        directories = [built]
        while raw[at]:
            end = raw.index(b"\0", at)
            directories.append(os.path.join(built, os.fsdecode(raw[at:end])))
            at = end + 1
        at += 1
        found = [os.path.normpath(os.path.join(built, unit_name(unit)))]
        while raw[at]:
            unit.budget.spend(3)
            end = raw.index(b"\0", at)
            name = os.fsdecode(raw[at:end])
            directory, at = uleb(raw, end + 1)
            _, at = uleb(raw, at)
            _, at = uleb(raw, at)
            into = directories[directory] if directory < len(directories) else built
            found.append(os.path.normpath(os.path.join(into, name)))
        return found

    def rows(self) -> Iterator[Row]:
        """Yield the rows, in the order of the table: sequences of ascending addresses."""
        state = _State(self._raw, self._program, self._default)
        first, span, base, least = self._opcodes, self._range, self._base, self._least
        raw, end, count = self._raw, len(self._raw), 0
        while state.at < end:
            count += 1
            if not count & 0xFFF:
                self._unit.budget.spend(0x1000)
            opcode = raw[state.at]
            state.at += 1
            if opcode >= first:
                step, advance = divmod(opcode - first, span)
                state.address += step * least
                state.line += advance + base
                yield state.row()
            elif opcode == COPY:
                yield state.row()
            elif opcode == 0:
                if state.extended() == END_SEQUENCE:
                    yield Row(state.address, state.file, state.line, state.statement, end=True)
                    state.begin(self._default)
            elif opcode == CONST_ADD_PC:
                state.address += (255 - first) // span * least
            elif opcode == ADVANCE_PC:
                state.address += state.uleb() * least
            elif opcode in OPERATIONS:
                OPERATIONS[opcode](state)
            else:
                for _ in range(self._operands[opcode - 1]):
                    state.uleb()


class _State:
    """The registers of the machine that a line table is a program for (section 6.2.2), and where
    it is in the program."""

    __slots__ = ("address", "after_prologue", "at", "file", "line", "raw", "statement")

    def __init__(self, raw: bytes, at: int, statement: bool) -> None:
        self.raw = raw
        self.at = at
        self.begin(statement)

    def begin(self, statement: bool) -> None:
        """Begin a sequence."""
        self.address, self.file, self.line, self.statement = 0, 1, 1, statement
        self.after_prologue = False

    def row(self) -> Row:
        """The row that the registers describe."""
        ended, self.after_prologue = self.after_prologue, False
        return Row(self.address, self.file, self.line, self.statement, after_prologue=ended)

    def uleb(self) -> int:
        value, self.at = uleb(self.raw, self.at)
        return value

    def extended(self) -> int:
        """Carry out an extended operation, which is the result."""
        size = self.uleb()
        after = self.at + size
        if not size or after > len(self.raw):
            raise DwarfError("a line table is damaged")
        code = self.raw[self.at]
        if code == SET_ADDRESS:
            self.address = int.from_bytes(self.raw[self.at + 1 : after], "little")
        self.at = after
        return code

    def advance_line(self) -> None:
        advance, self.at = sleb(self.raw, self.at)
        self.line += advance

    def set_file(self) -> None:
        self.file = self.uleb()

    def end_prologue(self) -> None:
        self.after_prologue = True

    def negate(self) -> None:
        self.statement = not self.statement

    def fixed_advance(self) -> None:
        self.address += int.from_bytes(self.raw[self.at : self.at + 2], "little")
        self.at += 2


OPERATIONS = {
    ADVANCE_LINE: _State.advance_line,
    SET_FILE: _State.set_file,
    NEGATE: _State.negate,
    FIXED_ADVANCE_PC: _State.fixed_advance,
    SET_PROLOGUE_END: _State.end_prologue,
}
"""The standard operations that change one register, and take no constant of the table."""


def unit_name(unit: Unit) -> str:
    """Return the file that a unit was compiled from, as the compiler was given it."""
    return _text(unit, "DW_AT_name")


def _built(unit: Unit) -> str:
    """The directory that a unit was compiled in."""
    return _text(unit, "DW_AT_comp_dir")


def _text(unit: Unit, name: str) -> str:
    for each in (unit, unit.skeleton):
        if each is not None and each.root.has(name):
            value = each.root.get(name).value
            return os.fsdecode(value) if isinstance(value, bytes) else ""
    return ""


def line_table(unit: Unit) -> LineTable | None:
    """Return the line table of ``unit``; None where it has none. Raises `DwarfError` if it is
    damaged."""
    own = unit.skeleton or unit
    if not own.root.has("DW_AT_stmt_list"):
        return None
    offset = own.root.get("DW_AT_stmt_list").value
    if not isinstance(offset, int):
        raise DwarfError("a line table has no place")
    try:
        return LineTable(own, offset)
    except (IndexError, ValueError):
        raise DwarfError("the header of a line table is damaged") from None
