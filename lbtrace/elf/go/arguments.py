"""The arguments of Go functions, as the runtime prints them in a traceback.

For that the compiler leaves a table (``FUNCDATA_ArgInfo``, from Go 1.17 on,
read here from 1.18 on), which stripping does not take: of each argument its
place among the stack-assigned and spilled arguments, its size, and how
structs, strings and the like group them; no types. Sources: Go's
``runtime/traceback.go`` (``printArgs``), ``cmd/compile/internal/ssagen/pgen.go``
(``EmitArgInfo``), ``internal/abi/symtab.go``, ``runtime/symtab.go`` (``funcdata``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from lbtrace.elf.go.pclntab import GoTable
from lbtrace.elf.image import Image
from lbtrace.elf.memory import Memory

FUNCDATA_ARGINFO = 5

GOFUNC_BY_VERSION = (((1, 27), 43), ((1, 20), 40), ((1, 18), 38))
"""From which version on, at which word of ``moduledata`` the start of all funcdata is."""

END, START_GROUP, END_GROUP, MORE, TOO_FAR = 0xFF, 0xFE, 0xFD, 0xFC, 0xFB
LONGEST = 1024
"""Bytes of a function's table; ``TraceArgsMaxLen`` is about 180."""


class Word(Struct, frozen=True):
    """A number or pointer of ``size`` bytes, ``offset`` bytes into the arguments;
    both are 0 where it lies too far for the table."""

    offset: int
    size: int


class Group(Struct, frozen=True):
    """A struct, string or the like. ``more`` says that not all its parts are listed."""

    parts: tuple[ArgumentPart, ...] = ()
    more: bool = False


ArgumentPart: TypeAlias = Word | Group


class Arguments:
    """Reads the tables of one image."""

    def __init__(self, image: Image, table: GoTable, version: tuple[int, int]) -> None:
        self._memory = Memory(image)
        self._table = table
        known = version if version != (0, 0) else (99, 0)
        word = next((word for since, word in GOFUNC_BY_VERSION if known >= since), 0)
        self._base = self._memory.word(table.moduledata + 8 * word) if word else 0

    def of(self, address: int) -> Group | None:
        """Return the arguments of the function at ``address``; None where they are unknown."""
        offset = self._table.funcdata(address, FUNCDATA_ARGINFO)
        if not self._base or offset is None:
            return None
        return _parsed(iter(self._memory.read(self._base + offset, LONGEST)), END)


def _parsed(data: Iterator[int], end: int) -> Group | None:
    parts: list[ArgumentPart] = []
    more = False
    for byte in data:
        if byte == end:
            return Group(tuple(parts), more)
        if byte == START_GROUP:
            inside = _parsed(data, END_GROUP)
            if inside is None:
                return None
            parts.append(inside)
        elif byte == MORE:
            more = True
        elif byte == TOO_FAR:
            parts.append(Word(0, 0))
        elif byte in (END, END_GROUP):
            return None
        else:
            parts.append(Word(byte, next(data, 0)))
    return None
