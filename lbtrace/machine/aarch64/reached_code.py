"""What is known of the code of an arm64 function while it is followed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from lbtrace.machine.aarch64.instructions import (
    is_load_exclusive,
    is_store_exclusive,
    moves_stack,
    signed,
)
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Extent

_TURNS = re.compile(rb"[\0\x14-\x17\x34-\x37\x54\x94-\x97\xb4-\xb7\xd4\xd6\xd7]")
"""The highest byte of what may go elsewhere: jumps, calls, traps; and of what is no code."""


class Words:
    """The words of a part of a function, and which of them were reached."""

    def __init__(self, code: bytes) -> None:
        self.words = memoryview(code)[: len(code) // 4 * 4].cast("I")
        self._highest = code[3::4]
        self._taken = bytearray(len(self._highest))

    def turn(self, first: int) -> tuple[int, bool]:
        """Return the position after the next word from ``first`` on that may go elsewhere; of the
        next that was reached already, if that comes first, and whether so."""
        match = _TURNS.search(self._highest, first)
        following = match.end() if match else len(self._highest)
        known = self._taken.find(1, first, following)
        return (following, False) if known < 0 else (known, True)

    def take(self, at: range) -> None:
        """Note that the words there are reached."""
        self._taken[at.start : at.stop] = b"\1" * len(at)


class ReachedCode(Extent):
    """The code of a function as far as it is known.

    ``instructions``, ``before``, ``sources``, ``hidden``, ``tables``, ``loops_to_entry`` and
    ``landed`` are those of `lbtrace.machine.x86_64.reached_code.ReachedCode`; ``outs`` are the
    instructions that leave the function, ``computed`` those of them that may also stay.
    """

    def __init__(self, parts: Sequence[Code], around: Around) -> None:
        super().__init__(parts, around)
        self.around = around
        self.start = parts[0].address
        self.instructions: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.sources: dict[int, list[int]] = {}
        self.outs: list[int] = []
        self.computed: set[int] = set()
        self.hidden: dict[int, str] = {}
        self.tables: list[range] = []
        self.loops_to_entry = False
        self.landed: set[int] = set()
        self._parts: dict[int, Words] = {}

    def words(self, part: Code) -> Words:
        """Return the words of a part, and which of them are reached."""
        found = self._parts.get(part.address)
        if found is None:
            found = self._parts[part.address] = Words(part.code)
        return found

    def take(self, part: Code, words: Words, at: range, last: int) -> int:
        """Note that some instructions are reached one after the other, the first from the one
        at ``last``, if any; the last of all of them."""
        if not at:
            return last
        addresses = range(part.address + 4 * at.start, part.address + 4 * at.stop, 4)
        self.instructions.update(zip(addresses, words.words[at.start : at.stop], strict=True))
        self.before.update(zip(addresses[1:], addresses, strict=False))
        if last >= 0:
            self.before[addresses[0]] = last
        words.take(at)
        return addresses[-1]

    def is_certain(self, address: int) -> bool:
        """Return whether nothing else that was found says that there is data at ``address``."""
        return not any(t.start < address + 4 and address < t.stop for t in self.tables)

    def exclusive(self) -> set[int]:
        """Return the instructions between a load and a store that belong together: whatever
        interrupts them makes the store fail, a breakpoint each time."""
        if not any(word & 0x3F000000 == 0x08000000 for word in self.instructions.values()):
            return set()
        loads = [a for a, word in self.instructions.items() if is_load_exclusive(word)]
        if not loads:
            return set()
        stores = [a for a, word in self.instructions.items() if is_store_exclusive(word)]
        successors: dict[int, list[int]] = {}
        for target in self.instructions:
            for source in self._leading(target):
                successors.setdefault(source, []).append(target)
        after = self._reached(loads, lambda a: successors.get(a, ()), stores)
        return after & self._reached(stores, self._leading, loads)

    def _leading(self, address: int) -> list[int]:
        last = self.before.get(address)
        return [*self.sources.get(address, ()), *([] if last is None else [last])]

    def _reached(self, starts: list[int], ahead, ends: list[int]) -> set[int]:  # type: ignore[no-untyped-def]
        found: set[int] = set()
        ways = [other for start in starts for other in ahead(start)]
        while ways:
            address = ways.pop()
            if address not in found and address not in ends:
                found.add(address)
                ways += ahead(address)
        return found

    @cached_property
    def keeps_stack(self) -> bool:
        """Whether nothing in the function's first part moves the stack pointer."""
        return not any(map(moves_stack, self.words(self.parts[0]).words))

    def labels(self) -> Iterator[int]:
        """Yield the places in the function whose addresses it takes."""
        for address, word in self.instructions.items():
            if word & 0x9F000000 == 0x10000000:  # adr
                target = address + signed(word, 5, 19) + (word >> 29 & 3)
                if target != self.start and self.part(target):
                    yield target
