"""The dynamic symbols of a file, found by name as the loader does: by its GNU hash table
(``do_lookup_x`` in glibc's ``elf/dl-lookup.c``). Of a hundred thousand that a file offers, few
are asked for.

The table has no hashes of most symbols that the file does not define; these come before all that
have one. A file without the table has all its symbols searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from struct import error as LayoutError

from msgspec import Struct

from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import SYMBOL, SymbolSource, SymbolTable, Wanted, hash_of

SHN_UNDEF = 0
HEADER, HALF, WORD = Layout("<4I"), Layout("<I"), Layout("<Q")

LONGEST = 4096
"""Symbols of one bucket that are looked at; there are a few."""


class HashTable(Struct, frozen=True):
    """A GNU hash table: ``first`` is the first symbol in it, ``words`` are those of its filter."""

    span: Span
    buckets: int
    first: int
    words: int
    shift: int

    @classmethod
    def read(cls, span: Span) -> HashTable | None:
        """Return the table that ``span`` begins with; None where it is damaged, or holds nothing:
        what linkers write then does not tell how many symbols there are."""
        if span.size < HEADER.size:
            return None
        buckets, first, words, shift = HEADER.unpack_from(span.data, span.start)
        start = HEADER.size + WORD.size * words
        end = start + HALF.size * buckets
        if not (buckets and words) or end > span.size:
            return None
        filled = any(span.data[span.start + start : span.start + end])
        return cls(span, buckets, first, words, shift) if filled else None

    def positions(self, hashed: int) -> Iterator[int]:
        """Yield the symbols whose names have the hash."""
        data, at = self.span.data, self.span.start + HEADER.size
        (word,) = WORD.unpack_from(data, at + WORD.size * (hashed >> 6 & self.words - 1))
        if not word >> (hashed & 63) & word >> (hashed >> self.shift & 63) & 1:
            return
        at += WORD.size * self.words
        (begin,) = HALF.unpack_from(data, at + HALF.size * (hashed % self.buckets))
        at += HALF.size * (self.buckets - self.first)
        last = (self.span.start + self.span.size - at) // HALF.size
        for position in range(begin, min(begin + LONGEST, last)) if begin >= self.first else ():
            (other,) = HALF.unpack_from(data, at + HALF.size * position)
            if other | 1 == hashed | 1:
                yield position
            if other & 1:
                return


class DynamicSymbols:
    """The symbols at ``table``, with their names in ``strings``: those of a hash table, and the
    first ``count``, which are without one."""

    def __init__(self, table: Span, strings: Span, count: int, hashes: HashTable | None) -> None:
        self._table = table
        self._strings = strings
        self._hashes = hashes
        size = min(count * SYMBOL.size, table.size)
        source = SymbolSource(table._replace(size=size), strings)
        self._listed = SymbolTable.of_every_symbol(source)

    def named(self, name: str) -> list[int]:
        """Return those called ``name``."""
        found = [*self._listed.named(name), *self._hashed(hash_of(name))]
        return [position for position in found if self.name(position) == name]

    def wanted(self, wanted: Wanted) -> dict[int, str]:
        """Return those that are ``wanted``, with their names; maybe more. Beginnings are only
        those of symbols without a hash."""
        found = {position: self.name(position) for position in [*self._listed.wanted(wanted)]}
        for name, hashed in wanted.hashes.items():
            for position in self._hashed(hashed):
                if self.name(position) == name:
                    found[position] = name
        return found

    def name(self, position: int) -> str:
        """Return the name of a symbol, ``""`` where there is none."""
        return self._strings.string(self._row(position)[0])

    def address(self, position: int) -> int:
        """Return where the file defines a symbol, or 0."""
        *_, section, value, _ = self._row(position)
        return value if section != SHN_UNDEF else 0

    def is_undefined(self, position: int) -> bool:
        """Return whether the file does not define a symbol."""
        return self._row(position)[3] == SHN_UNDEF

    def _hashed(self, hashed: int) -> Iterator[int]:
        return self._hashes.positions(hashed) if self._hashes else iter(())

    def _row(self, position: int) -> tuple[int, ...]:
        try:
            at = self._table.start + position * SYMBOL.size
            return SYMBOL.unpack_from(self._table.data, at)
        except LayoutError:  # beyond the end of the file
            return (0,) * 6
