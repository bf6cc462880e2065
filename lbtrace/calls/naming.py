"""Addresses of code to the names of functions.

A process may have a binary anywhere. Where, is told by an entry that brings
the instruction pointer, as the address of its probe in the file is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.elf import demangle
from lbtrace.model import Address, Symbol, Symbols


class Namer:
    """Names the functions of the traced binaries in every process."""

    def __init__(self, binaries: Sequence[Symbols] = ()) -> None:
        self._names = [dict(zip(b.addresses, b.names, strict=False)) for b in binaries]
        self._shifts: dict[int, dict[int, int]] = {}

    def learn(self, pid: int, binary: int, pointer: int, address: int) -> None:
        """A probe at ``address`` in the file was hit with this instruction ``pointer``."""
        self._shifts.setdefault(pid, {})[binary] = pointer - address

    def name(self, pid: int, address: Address) -> Address | Symbol:
        """The function that begins at ``address`` in a process, else the address."""
        for binary, shift in self._shifts.get(pid, {}).items():
            name = self._names[binary].get(address - shift)
            if name is not None:
                return Symbol(demangle.short(name))
        return address
