"""The functions of Go's table, made when they are asked for: large programs have 50,000."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import overload

from lbtrace.elf import strings
from lbtrace.elf.functions import Functions
from lbtrace.elf.span import Span
from lbtrace.elf.symbol_table import Wanted
from lbtrace.model import Function

RECENT = 1 << 16
"""Functions that are kept, as several questions are asked of each."""


FEW = 16
"""Names that are searched one by one; all are compared with more of them."""


class FunctionNames(Sequence[str]):
    """The names of functions, by their offsets in a table of strings."""

    def __init__(self, table: Span, offsets: array[int]) -> None:
        """Raises `ValueError` if an offset is outside of the table."""
        if offsets and not 0 <= min(offsets) <= max(offsets) < table.size:
            raise ValueError
        self._table = table
        self.offsets = offsets
        self._longest = strings.LONGEST
        if self._shared() > strings.SHARED * table.size + strings.LEAST:
            self._longest = strings.SHORT

    def _shared(self) -> int:
        """Return how many bytes names take that several functions share, or that begin within
        others, together: linkers share few."""
        used = Counter(self.offsets)
        data, start = self._table.data, self._table.start
        return sum(
            count * len(self._table.string(offset))
            for offset, count in used.items()
            if count > 1 or (offset and data[start + offset - 1])
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return self._table.string(self.offsets[index], self._longest)

    def __iter__(self) -> Iterator[str]:
        return (self._table.string(offset, self._longest) for offset in self.offsets)

    def raw(self) -> Iterator[bytes]:
        """Yield them as they stand in the table, to be compared."""
        data, start, longest = self._table.data, self._table.start, self._longest
        for offset in self.offsets:
            at = start + offset
            end = data.find(b"\0", at, at + longest)
            yield data[at : end if end >= 0 else at + longest]

    def beginning(self, text: str, ends: str = "") -> list[int]:
        """Return the positions of those that begin with ``text``; with ``ends`` such that one of
        these characters, or nothing, follows it."""
        return self._at({*self._places(text, {0, *ends.encode()} if ends else ())})

    def among(self, texts: Iterable[str]) -> list[int]:
        """Return the positions of those that are one of ``texts``."""
        places = {place for text in texts if text for place in self._places(text, {0})}
        if "" in texts:
            data, start = self._table.data, self._table.start
            places.update(at for at in {*self.offsets} if not data[start + at])
        return self._at(places)

    def _at(self, places: Collection[int]) -> list[int]:
        """Return the positions of the names at some places."""
        if len(places) > FEW:
            return [n for n, offset in enumerate(self.offsets) if offset in places]
        size = self.offsets.itemsize
        packed, found = self.offsets.tobytes(), list[int]()
        for place in places:
            wanted = array("q", [place]).tobytes()
            at = packed.find(wanted)
            while at >= 0:
                found += [] if at % size else [at // size]
                at = packed.find(wanted, at + 1)
        return sorted(found)

    def _places(self, text: str, after: Collection[int]) -> Iterator[int]:
        """Yield where in the table ``text`` stands, followed by one of some bytes, if any are
        given."""
        wanted = text.encode(errors="replace")
        data, start = self._table.data, self._table.start
        stop = start + self._table.size
        at = data.find(wanted, start, stop)
        while at >= 0:
            behind = at + len(wanted)
            if not after or behind >= stop or data[behind] in after:
                yield at - start
            at = data.find(wanted, at + 1, stop)


class GoFunctions(Functions):
    """The functions of Go, between those that are ``before`` and ``after`` them."""

    def __init__(
        self,
        names: FunctionNames,
        starts: array[int],
        ends: array[int],
        shift: int,
        kept: array[int],
        outside: tuple[Sequence[Function], Sequence[Function]] = ((), ()),
        renamed: Mapping[int, Function] | None = None,
    ) -> None:
        """``starts`` and ``ends`` are those of all rows of the table, of which ``kept`` are
        functions; ``shift`` leads from addresses to places in the file; ``outside`` are functions
        of lower and of higher addresses, ``renamed`` those that have other names than in the table,
        by address."""
        self._names = names
        self._starts = starts
        self._ends = ends
        self._shift = shift
        self._kept = kept
        self._below, self._above = outside
        self._renamed = renamed or {}
        self._recent: dict[int, Function] = {}
        self._addresses = array("Q", [f.address for f in self._below])
        self._addresses.extend(starts[row] for row in kept)
        self._addresses.extend(f.address for f in self._above)

    def among(
        self,
        below: Sequence[Function],
        above: Sequence[Function],
        renamed: Mapping[int, Function],
    ) -> GoFunctions:
        """Return the same, between others, and with other names."""
        rows = (self._names, self._starts, self._ends, self._shift, self._kept)
        return GoFunctions(*rows, (below, above), renamed)

    def __len__(self) -> int:
        return len(self._addresses)

    @overload
    def __getitem__(self, index: int) -> Function: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Function]: ...
    def __getitem__(self, index: int | slice) -> Function | Sequence[Function]:
        if isinstance(index, slice):
            return [self._made(number) for number in range(*index.indices(len(self)))]
        return self._made(range(len(self))[index])

    def __iter__(self) -> Iterator[Function]:
        return map(self._made, range(len(self)))

    def _made(self, number: int) -> Function:
        own = number - len(self._below)
        if own < 0:
            return self._below[number]
        if own >= len(self._kept):
            return self._above[own - len(self._kept)]
        row = self._kept[own]
        start = self._starts[row]
        if start in self._renamed:
            return self._renamed[start]
        made = self._recent.get(row)
        if made is None:
            if len(self._recent) >= RECENT:
                self._recent.clear()
            end = self._ends[row]
            made = Function(self._names[row], start, end - start, start + self._shift)
            self._recent[row] = made
        return made

    def at(self, address: int) -> Function | None:
        """Return the one that begins at ``address``."""
        number = self.before(address) - 1
        begins = number >= 0 and self._addresses[number] == address
        return self._made(number) if begins else None

    def before(self, address: int) -> int:
        return bisect_right(self._addresses, address)

    def named(self, name: str) -> list[Function]:
        start = f"{name}."
        numbers = set[int]()
        for row in self._names.beginning(name, "."):
            at = bisect_left(self._kept, row)
            if self._kept[at : at + 1] == array("L", [row]):
                numbers.add(at + len(self._below))
        for other in (*self._below, *self._above, *self._renamed.values()):
            if name in (other.name, *other.aliases) or other.name.startswith(start):
                numbers.add(self.before(other.address) - 1)
        return [*map(self._made, sorted(numbers))]

    def with_part(self, part: str) -> list[Function]:
        names = self._names
        numbers = {n + len(self._below) for n, row in enumerate(self._kept) if part in names[row]}
        for other in (*self._below, *self._above, *self._renamed.values()):
            numbers.add(self.before(other.address) - 1)
        found = map(self._made, sorted(numbers))
        return [f for f in found if any(part in n for n in (f.name, *f.aliases))]

    def wanted(self, wanted: Wanted) -> Iterable[Function]:
        return self
