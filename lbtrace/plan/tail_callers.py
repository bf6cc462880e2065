"""Functions that jump to others as a tail call, and so share a return address with them.

What one of them hands on may lead to it: an address of its own frame (`lbtrace.plan.code_walk`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.machine import Machine

CHAIN = 5
"""Functions, one jumping to the next, that are followed back at most."""

MOST = 4000
"""Functions that are found, at most."""


def find_tail_callers(
    image: Image, table: Symbols, stubs: Mapping[int, Stub], functions: Collection[int]
) -> list[int]:
    """Return the other functions that jump to one of ``functions``, or to a function that does;
    ``stubs`` are jumped to in place of what they lead to. All are addresses."""
    machine = Machine(image.machine)
    if not functions or not machine.is_read_natively:
        return []
    unwind = image.once(Unwind)
    known, parts, found = set(functions), set[int](), dict[int, None]()

    def start_of(address: int) -> int | None:
        holding = table.functions.holding(address)
        part = None if holding else table.cold.holding(address)
        start = _described(unwind, address)
        if holding:
            start = holding.address
        elif part:
            start = part.address
            parts.add(start)
        return None if start in known else start

    ahead = set(functions)
    for _ in range(CHAIN):
        wanted = {*ahead, *(at for at, stub in stubs.items() if stub.address in ahead)}
        ahead = {
            start
            for segment in image.executable_segments
            for start, _ in machine.find_jumps(
                image.view(segment.address, segment.size), segment.address, wanted, start_of
            )
        }
        known |= ahead
        found |= dict.fromkeys(sorted(ahead - parts))
        if not ahead or len(found) > MOST:
            break
    return [*found][:MOST]


def _described(unwind: Unwind, address: int) -> int | None:
    """Where the code begins that holds ``address``, of no symbol, by what unwinding it takes."""
    starts = unwind.starts
    number = bisect_right(starts, address)
    return starts[number - 1] if number else None
