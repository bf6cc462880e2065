"""Finds the names of functions by addresses of code.

A process may map a binary at any address. An entry event shows where: it carries the instruction
pointer, and the address of its probe in the file is known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from lbtrace.model import Binary, Symbols

if TYPE_CHECKING:
    from lbtrace.dwarf.code_names import CodeNames

WORD = 8

MOST_KNOWN = 1 << 12
"""Names that are kept because the same addresses come again."""


class _RecordedNames:
    """The names that a capture has."""

    def __init__(self, recorded: Symbols) -> None:
        self._recorded = recorded
        self.tables = recorded.tables

    def function(self, address: int) -> str:
        return self._by_address.get(address, "")

    @cached_property
    def _by_address(self) -> dict[int, str]:
        return dict(zip(self._recorded.addresses, self._recorded.names, strict=False))


def _names_of(binary: Binary) -> CodeNames | _RecordedNames:
    if not binary.names_in:
        return _RecordedNames(binary.symbols)
    from lbtrace.dwarf.code_names import CodeNames  # imported here: captures have theirs

    return CodeNames(binary)


class Namer:
    """Names the functions of the traced binaries in every process.

    ``shifts`` are, by process and binary, how much higher it is mapped than its file says. What has
    these addresses of processes is ``known``: the dictionary is replaced when it no longer holds.
    """

    def __init__(self, binaries: Sequence[Binary] = ()) -> None:
        self._names: list[CodeNames | _RecordedNames] = []
        self.shifts: dict[int, dict[int, int]] = {}
        self.known: dict[tuple[int, int], str] = {}
        self.add(binaries)

    def add(self, binaries: Sequence[Binary]) -> None:
        """Name the functions of these binaries too, which are traced after all others."""
        self._names += map(_names_of, binaries)
        self.known = {}

    def learn(self, pid: int, binary: int, pointer: int, address: int) -> None:
        """A probe at ``address`` in the file was hit with this instruction ``pointer``."""
        shifts, shift = self.shifts.setdefault(pid, {}), pointer - address
        if shifts.get(binary) != shift:
            shifts[binary] = shift
            self.known = {}

    def name(self, pid: int, address: int) -> str:
        """Return the function that begins at ``address`` in a process, or the table of virtual
        functions to which objects lead with it; ``""`` where none is known."""
        name = self.known.get((pid, address))
        if name is None:
            if len(self.known) == MOST_KNOWN:
                self.known = {}
            name = self.known[pid, address] = self._find(pid, address)
        return name

    def _find(self, pid: int, address: int) -> str:
        for binary, shift in self.shifts.get(pid, {}).items():
            names = self._names[binary]
            name = names.function(address - shift)
            table = "" if name else _table(names.tables, address - shift)
            if name or table:
                # Imported here because few values are names.
                from lbtrace.elf import cpp_names, demangle

                full = demangle.short(name) if name else demangle.demangled(table)
                return cpp_names.shorten(full)
        return ""


def _table(tables: Sequence[tuple[int, int, str]], address: int) -> str:
    """The name of the table with this address; empty where that is none's."""
    at = bisect_right(tables, address, key=lambda table: table[0]) - 1
    if at < 0:
        return ""
    first, last, name = tables[at]
    return name if address <= last and not (address - first) % WORD else ""
