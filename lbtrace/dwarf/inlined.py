"""Functions that were inlined: where, and their parameters there.

Source: DWARF 5, sections 2.18 and 3.3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lbtrace.dwarf.attributes import linkage_name, origins
from lbtrace.dwarf.enclosing import function_scopes
from lbtrace.dwarf.inlined_in_part import start_of
from lbtrace.dwarf.languages import CPP, language_of
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.reader.entries import Entry
from lbtrace.dwarf.scopes import Variable, text
from lbtrace.dwarf.sources import DAMAGE, Declarations


class Inlined(NamedTuple):
    """A copy of the function ``name`` (as in symbols), which begins at ``address`` in the function
    ``within``; ``parameters`` are its own."""

    name: str
    address: int
    within: str
    parameters: tuple[Variable, ...]


class Name(NamedTuple):
    """How an inlined function is called, in its source and in symbols, and the ``file`` that
    defines it."""

    plain: str
    symbol: str
    file: str


def find_inlined(lines: SourceLines, wanted: Callable[[Name], bool]) -> list[Inlined]:
    """Return the inlined copies of functions that are ``wanted``, by address."""
    found: set[tuple[int, str]] = set()
    copies: list[Inlined] = []
    names = Names(wanted)
    for unit in lines.units():
        with suppress(*DAMAGE):
            for entry in unit.tagged("DW_TAG_inlined_subroutine"):
                with suppress(*DAMAGE):  # of this copy alone
                    name = names.of(entry)
                    address = start_of(entry) if name else None
                    if name is None or address is None or (address, name.symbol) in found:
                        continue
                    found.add((address, name.symbol))
                    offset = unit.skeleton.offset if unit.skeleton else unit.offset
                    scopes = lines.scopes_of(offset)
                    if scopes is None or (function := scopes.function(address)) is None:
                        continue
                    parameters = tuple(scopes.parameters(entry, address))
                    within = names.name(function).symbol
                    copies.append(Inlined(name.symbol, address, within, parameters))
    return sorted(copies, key=lambda copy: (copy.address, copy.name))


class Names:
    """The names of functions, those of inlined ones read once."""

    def __init__(self, wanted: Callable[[Name], bool] = bool) -> None:
        self._wanted = wanted
        self._known: dict[int, Name | None] = {}
        self._declarations = Declarations()
        self._scopes: dict[int, dict[int, str]] = {}

    def of(self, entry: Entry) -> Name | None:
        """Return the name of an inlined function; None if it is not wanted."""
        chain = origins(entry)
        if len(chain) < 2:
            return None
        key = chain[1].offset
        if key not in self._known:
            name = self.name(chain[1])._replace(file=self._declarations.file_of(chain[1]) or "")
            self._known[key] = name if name.plain and self._wanted(name) else None
        return self._known[key]

    def name(self, entry: Entry) -> Name:
        """Return the name of a function, without its file."""
        chain = origins(entry)
        plain = next(filter(None, (text(e, "DW_AT_name") for e in chain)), "")
        return Name(plain, linkage_name(chain) or f"{self._scope(chain[-1])}{plain}", "")

    def _scope(self, entry: Entry) -> str:
        """What qualifies the name of a function of C++ to which gcc gives none in symbols."""
        root = entry.unit.root
        if language_of(root) not in CPP:
            return ""
        if root.offset not in self._scopes:
            self._scopes[root.offset] = dict(function_scopes(root))
        return self._scopes[root.offset].get(entry.offset, "")
