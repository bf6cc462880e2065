"""Where an arm64 function is left: its ``ret`` instructions and the jumps to other functions.

Kernels refuse probes on ``retaa`` and ``retab``, which check the address first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from lbtrace.arch import Code, Exit, Exits
from lbtrace.arch.arm64_words import (
    condition,
    is_add,
    is_authenticated_ret,
    is_b,
    is_br,
    is_plain_br,
    is_ret,
    is_simulated,
    jump,
    test,
    words,
)
from lbtrace.arch.extent import inside
from lbtrace.model import Jump, Site
from lbtrace.model.jumps import INSIDE, LESS, NO_CARRY

_SIGN, _ZERO, _CARRY, _OVERFLOW = 1 << 31, 1 << 30, 1 << 29, 1 << 28
"""Bits of PSTATE: arch/arm64/include/uapi/asm/ptrace.h."""

CONDITIONS = (
    *((0, _ZERO), (_ZERO, 0), (0, _CARRY), (_CARRY, 0), (0, _SIGN), (_SIGN, 0)),
    *((0, _OVERFLOW), (_OVERFLOW, 0), (_ZERO, _CARRY), (0, NO_CARRY | _ZERO)),
    *((LESS, 0), (0, LESS), (LESS | _ZERO, 0), (0, LESS | _ZERO), (0, 0), (0, 0)),
)
"""By a condition's code (C1.2.4): with which flags it does not hold, and with which it
does, as in `Site`."""


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
        body.judge_computed()
        body.found.sort(key=lambda exit: exit.site.address)
        return Exits(tuple(body.found), tuple(body.hidden))


class _Body:
    """The code of a function as far as it is known, and the exits found in it."""

    def __init__(self, parts: Sequence[Code], more: Callable[[int], Code | None]) -> None:
        self.parts = list(parts)
        self.found: list[Exit] = []
        self.hidden: list[str] = []
        self._computed: list[tuple[Site, int]] = []
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
            if not _is_switch(part, address, word):
                self._computed.append((site, word))
        elif distance is not None:
            target = address + distance
            # At the function's own start the probe fires again.
            if target != self._start and self.knows(target):
                return
            if is_b(word):
                self.found.append(Exit("tail", site))
            elif (code := condition(word)) is not None:
                unless, only = CONDITIONS[code]
                why = "counts where it jumps"
                self.found.append(Exit("tail", replace(site, reason=why, unless=unless, only=only)))
            elif asked := test(word):
                why = "counts where it jumps"
                self.found.append(Exit("tail", replace(site, reason=why, test=asked)))
            else:
                self.hidden.append(f"no flag says whether the jump at {address:#x} is taken")

    def judge_computed(self) -> None:
        """Take in the jumps whose targets are computed, when all parts are known."""
        for site, word in self._computed:
            ranges = inside(self.parts, site.address, 4)
            if is_plain_br(word) and len(ranges) <= INSIDE:
                jump = Jump(f"x{word >> 5 & 31}", inside=ranges)
                why = "counts where it leaves the function"
                self.found.append(Exit("tail", replace(site, reason=why, jump=jump)))
            else:
                self.hidden.append(f"the jump at {site.address:#x} may leave the function")


def _is_switch(part: Code, address: int, word: int) -> bool:
    """Whether a jump through a register is that of a ``switch``: its target is the sum of
    an address and an entry of a table."""
    line: list[int] = []
    for at, before in words(part):
        if at >= address:
            break
        line = [] if jump(before) is not None or is_ret(before) else [*line, before]
    register = word >> 5 & 31
    writes = (before for before in reversed(line) if before & 31 == register)
    return is_add(next(writes, 0))
