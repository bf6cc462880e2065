"""The functions of an image, in the order of their addresses, and the ways to find some."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from lbtrace.elf.symbol_table import DOTTED, FUNCTION, Symbol, SymbolTable, Wanted
from lbtrace.model import Function

if TYPE_CHECKING:
    from lbtrace.elf.image import Image

KEPT = 4096
"""Functions that were found by their address and are kept: a caller asks for one repeatedly."""

NEIGHBOURS = 64
"""Functions before an address that are asked whether they reach over it."""

NESTED = 16
"""Functions may begin inside of one; a size that reaches over more is not believed. Else the work
on a file whose symbols all claim the rest of its code grew with the square of their number."""


class NativeFunctions(Struct, frozen=True):
    """Functions that native code can search: the ``address`` of their ``struct lbt_symbols``, and
    the bounds of the sections of code, starts and ends in turn."""

    address: int
    ends: Sequence[int]


class Functions(Sequence[Function]):
    """Functions, one an address. Searches give them in order."""

    native: NativeFunctions | None = None
    """They and the parts that were split off them, where these are all of symbol tables."""

    def holding(self, address: int) -> Function | None:
        """Return the last that begins before ``address``, or there, if it reaches that far."""
        count = self.before(address)
        function = self[count - 1] if count else None
        if function is None or address >= function.address + max(function.size, 1):
            return None
        return function

    def extent(self, address: int) -> range | None:
        """Return the addresses of the one that `holding` gives, from its first on."""
        last = self.last_extent(address)
        if last is None or address >= max(last.stop, last.start + 1):
            return None
        return last

    def last_extent(self, address: int) -> range | None:
        """Return the addresses of the last that begins before ``address``, or there, whether it
        reaches that far or not."""
        count = self.before(address)
        function = self[count - 1] if count else None
        if function is None:
            return None
        return range(function.address, function.address + function.size)

    def covering(self, address: int) -> Sequence[Function]:
        """Return those of the last ones that begin before ``address`` and reach over it."""
        count = self.before(address - 1) if address else 0
        last = self[max(count - NEIGHBOURS, 0) : count]
        return [function for function in last if address < function.address + function.size]

    @abstractmethod
    def before(self, address: int) -> int:
        """Return how many begin before ``address``, or there."""

    def names(self) -> tuple[list[int], list[str]]:
        """Return their addresses and their names."""
        return [function.address for function in self], [function.name for function in self]

    @abstractmethod
    def named(self, name: str) -> list[Function]:
        """Return those of which a name is ``name``, or begins with it and a dot; maybe more."""

    @abstractmethod
    def with_part(self, part: str) -> list[Function]:
        """Return those in a name of which ``part`` stands."""

    @abstractmethod
    def wanted(self, wanted: Wanted) -> Iterable[Function]:
        """Return those of which a name is ``wanted``; maybe more."""


class ListedFunctions(Functions):
    """Functions that are at hand."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._starts = [function.address for function in functions]

    def __len__(self) -> int:
        return len(self._functions)

    @overload
    def __getitem__(self, index: int) -> Function: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Function]: ...
    def __getitem__(self, index: int | slice) -> Function | Sequence[Function]:
        return self._functions[index]

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions)

    def before(self, address: int) -> int:
        return bisect_right(self._starts, address)

    def named(self, name: str) -> list[Function]:
        start = f"{name}."
        return [
            f
            for f in self._functions
            if f.name == name or name in f.aliases or f.name.startswith(start)
        ]

    def with_part(self, part: str) -> list[Function]:
        return [f for f in self._functions if any(part in n for n in (f.name, *f.aliases))]

    def wanted(self, wanted: Wanted) -> Iterable[Function]:
        return self._functions


class TableFunctions(Functions):
    """Functions, or parts that were split off some, of symbol tables."""

    def __init__(self, image: Image, table: SymbolTable, kind: int, ends: Sequence[int]) -> None:
        """``kind`` is that of `lbtrace.elf.symbol_table`, ``ends`` are the bounds of the sections
        of code, starts and ends in turn."""
        self._image = image
        self._table = table
        self._kind = kind
        self._ends = ends
        self._kept: dict[int, Function] = {}
        self.native = NativeFunctions(table.native_address, ends)

    def __len__(self) -> int:
        return self._table.count(self._kind)

    @overload
    def __getitem__(self, index: int) -> Function: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Function]: ...
    def __getitem__(self, index: int | slice) -> Function | Sequence[Function]:
        if isinstance(index, slice):
            return [self._made(number) for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        found = self._kept.get(number)
        if found is None:
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            found = self._kept[number] = self._made(number)
        return found

    def __iter__(self) -> Iterator[Function]:
        return map(self._made, range(len(self)))

    def last_extent(self, address: int) -> range | None:
        number = self._table.before(self._kind, address) - 1
        if number < 0:
            return None
        start = self._table.start(self._kind, number)
        return range(start, start + self._size(number, self._table.largest(self._kind, number)))

    def covering(self, address: int) -> Sequence[Function]:
        if self._kind != FUNCTION or not address:
            return super().covering(address)
        count = self.before(address - 1)
        found = self._table.covering(count, max(count - NEIGHBOURS, 0), address)
        functions = [self[number] for number in found][::-1]
        return [function for function in functions if address < function.address + function.size]

    def before(self, address: int) -> int:
        return self._table.before(self._kind, address)

    def named(self, name: str) -> list[Function]:
        return self._at(self._table.named(name))

    def with_part(self, part: str) -> list[Function]:
        flags = self._kind | (DOTTED if "." in part else 0)
        table = self._table
        # With a version, which native code does not look at, symbols are many.
        held = (p for p in table.holding(part, flags) if part in table.symbol(p).name)
        return self._at(held)

    def wanted(self, wanted: Wanted) -> Iterable[Function]:
        return self._at(self._table.wanted(wanted))

    def names(self) -> tuple[list[int], list[str]]:
        if self._kind != FUNCTION:
            return super().names()
        names = self._table.names()
        number = -1
        for _ in range(names.count("")):  # names that are not plain
            number = names.index("", number + 1)
            names[number] = self._made(number).name
        return self._table.starts(), names

    def _at(self, positions: Iterable[int]) -> list[Function]:
        """The functions of which the symbols at ``positions`` are."""
        numbers = {
            self._table.before(self._kind, self._table.address(position)) - 1
            for position in positions
            if self._table.is_of(position, self._kind)
        }
        return [self[number] for number in sorted(numbers)]

    def _made(self, number: int) -> Function:
        """One of the names is the function's, the others are aliases; the largest size."""
        table = self._table
        group = [*map(table.symbol, table.group(self._kind, number))]
        first, address, aliases = group[0], table.start(self._kind, number), tuple[str, ...]()
        size = first.size
        if len(group) > 1:
            group.sort(key=_rank)
            first, size = group[0], max(symbol.size for symbol in group)
            names = dict.fromkeys(symbol.name for symbol in group)
            aliases = tuple(name for name in names if name != first.name)
        size = self._size(number, size)
        offset = self._image.offset(address)
        return Function(first.name, address, size, offset, aliases, local=first.local)

    def _size(self, number: int, claimed: int) -> int:
        """The size of a function whose symbols claim to have another, or none."""
        address = self._table.start(self._kind, number)
        # What a symbol claims beyond the file's code is no code.
        size = min(claimed or self._inferred_size(address), self._image.room(address))
        inner = number + NESTED
        if inner < len(self) and self._table.start(self._kind, inner) < address + size:
            return self._table.start(self._kind, number + 1) - address
        return size

    def _inferred_size(self, address: int) -> int:
        """Up to the next function, or part of one, or the end of the sections of code; 0
        without any."""
        ends = [*self._table.following(address)]
        section = bisect_right(self._ends, address)
        if section & 1:
            ends.append(self._ends[section])
        return min(ends, default=address) - address


def _rank(symbol: Symbol) -> tuple[bool, bool, int, int, str]:
    """Global before local, default version before others, then the plainest name."""
    name = symbol.name
    underscores = len(name) - len(name.lstrip("_"))
    return symbol.local, "@" in name, underscores, len(name), name
