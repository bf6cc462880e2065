"""Where an arm64 function is left: its ``ret`` instructions and the jumps to other functions.

Kernels refuse probes on ``retaa`` and ``retab``, which check the address first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from lbtrace.arch import Code, Exit, Exits
from lbtrace.arch.arm64_words import (
    begins_frame,
    ends_frame,
    is_add,
    is_authenticated_ret,
    is_b,
    is_br,
    is_indexed_load,
    is_plain_br,
    is_ret,
    is_simulated,
    jump,
    words,
)
from lbtrace.model import Site


class Arm64ExitFinder:
    """Finds the exits of functions."""

    def exits(
        self, parts: Sequence[Code], more: Callable[[int], Code | None], pads: Sequence[int] = ()
    ) -> Exits:
        """See `lbtrace.arch.ExitFinder.exits`."""
        body = _Body(parts, more)
        for pad in pads:
            body.knows(pad)
        for part in body.parts:  # grows meanwhile
            for address, word in words(part):
                body.look_at(part, address, word)
        return Exits(tuple(body.found), tuple(body.hidden))


class _Body:
    """The code of a function as far as it is known, and the exits found in it."""

    def __init__(self, parts: Sequence[Code], more: Callable[[int], Code | None]) -> None:
        self.parts = list(parts)
        self.found: list[Exit] = []
        self.hidden: list[str] = []
        self._start = parts[0].address
        self._more = more

    def knows(self, address: int) -> bool:
        """Whether ``address`` is in this function's code; looks for more of it, if need be."""
        if any(p.address <= address < p.address + len(p.code) for p in self.parts):
            return True
        part = self._more(address)
        if part is not None:
            self.parts.append(part)
        return part is not None

    def look_at(self, part: Code, address: int, word: int) -> None:
        """Take in one instruction of ``part``."""
        offset = part.offset + address - part.address
        site = Site(address, offset, 0, f"{word:08x}", is_simulated(word))
        distance = jump(word)
        if is_ret(word):
            self.found.append(Exit("return", site))
        elif is_authenticated_ret(word):
            self.hidden.append(f"the kernel refuses a probe at {address:#x}")
        elif is_br(word):
            kind = _indirect(part, address, word)
            if kind == "tail":
                self.found.append(Exit("tail", site))
            elif kind == "unknown":
                self.hidden.append(f"the jump at {address:#x} may leave the function")
        elif distance is not None:
            target = address + distance
            # At the function's own start the probe fires again.
            if target != self._start and self.knows(target):
                return
            if is_b(word):
                self.found.append(Exit("tail", site))
            else:  # a probe there would fire whether it jumps or not
                self.hidden.append(f"the conditional jump at {address:#x} leaves for {target:#x}")


def _indirect(part: Code, address: int, word: int) -> Literal["switch", "tail", "unknown"]:
    """What a jump through a register is, judged by the straight line that leads to it.

    Behind the end of the frame it is a tail call, as it is where the function
    has none. The target of a ``switch`` is the sum of an address and an entry
    of a table.
    """
    line: list[int] = []
    for at, before in words(part):
        if at >= address:
            break
        line = [] if jump(before) is not None or is_ret(before) else [*line, before]
    register = word >> 5 & 31
    for before in reversed(line):
        if ends_frame(before):
            return "tail"
        if before & 31 == register and is_add(before):
            return "switch"
        if before & 31 == register and is_indexed_load(before):
            return "unknown"
    framed = any(begins_frame(before) for _, before in words(part))
    return "unknown" if framed or not is_plain_br(word) else "tail"
