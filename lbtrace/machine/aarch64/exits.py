"""Where an arm64 function is left: its ``ret`` instructions and the jumps to other functions.

Kernels refuse probes on ``retaa`` and ``retab``, which check the address first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from lbtrace.machine.aarch64.control_flow import Flow, never_returns
from lbtrace.machine.aarch64.instructions import (
    condition,
    is_b,
    is_br,
    is_plain_br,
    is_ret,
    is_simulated,
    jump,
    jumps,
)
from lbtrace.machine.code import Code, Exit, Exits
from lbtrace.machine.code_ranges import may_come_back, relative_ranges
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.interface import ExitFinder
from lbtrace.model import Jump, Site
from lbtrace.model.wire_limits import FLAG_LESS, FLAG_NO_CARRY, RANGES

_SIGN, _ZERO, _CARRY, _OVERFLOW = 1 << 31, 1 << 30, 1 << 29, 1 << 28
"""Bits of PSTATE: arch/arm64/include/uapi/asm/ptrace.h."""

CONDITIONS = (
    *((0, _ZERO), (_ZERO, 0), (0, _CARRY), (_CARRY, 0), (0, _SIGN), (_SIGN, 0)),
    *((0, _OVERFLOW), (_OVERFLOW, 0), (_ZERO, _CARRY), (0, FLAG_NO_CARRY | _ZERO)),
    *(
        (FLAG_LESS, 0),
        (0, FLAG_LESS),
        (FLAG_LESS | _ZERO, 0),
        (0, FLAG_LESS | _ZERO),
        (0, 0),
        (0, 0),
    ),
)
"""By a condition's code (C1.2.4): with which flags it does not hold, and with which it
does, as in `Site`."""


class Finder(ExitFinder):
    """Finds the exits of functions."""

    def exits(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> Exits:
        """See `lbtrace.machine.ExitFinder.exits`."""
        flow = Flow(parts, around, pads)
        hidden = list(flow.hidden.values())
        found: list[Exit] = []
        exclusive = flow.exclusive()
        for address in dict.fromkeys(flow.outs):
            site = _site(flow, address)
            if isinstance(site, str):
                hidden.append(site)
            elif address in exclusive:
                hidden.append(f"a probe at {address:#x} would make what surrounds it fail")
            elif not flow.is_certain(address):
                hidden.append(f"what is at {address:#x} is not certain to be an instruction")
            else:
                word = flow.instructions[address]
                distance = None if is_ret(word) or is_br(word) else jump(word)
                target = address + distance if distance is not None else 0
                found.append(Exit("return" if is_ret(word) else "tail", site, target=target))
        found.sort(key=lambda exit: exit.site.address)
        landing_pads = tuple(
            pad
            for pad in pads
            if pad in flow.instructions and flow.is_certain(pad) and pad not in exclusive
        )
        return Exits(tuple(found), tuple(dict.fromkeys(hidden)), flow.loops_to_entry, landing_pads)

    def reached(
        self,
        parts: Sequence[Code],
        around: Around,
        pads: Sequence[int] = (),
        *,
        uncertain: bool = False,
    ) -> dict[int, int]:
        """See `lbtrace.machine.ExitFinder.reached`."""
        flow = Flow(parts, around, pads)
        exclusive = flow.exclusive()
        known = flow.instructions
        if uncertain:
            return {address: address + 4 for address in known}
        return {a: a + 4 for a in known if flow.is_certain(a) and a not in exclusive}

    def leads_to(self, code: Code, address: int) -> bool:
        """See `lbtrace.machine.ExitFinder.leads_to`."""
        return not (address - code.address) % 4

    def may_loop_to_entry(self, parts: Sequence[Code]) -> bool:
        """See `lbtrace.machine.ExitFinder.may_loop_to_entry`."""
        code = parts[0]
        found = [(at, word, at + (jump(word) or 1)) for at, word in jumps(code)]
        if any(is_br(word) or target == code.address for _, word, target in found):
            return True
        branches = (to for at, word, to in found if not is_b(word) and jump(word) is not None)
        return may_come_back(parts, branches, self.jumps)

    def jumps(self, code: Code, to: range) -> Iterator[int]:
        """See `lbtrace.machine.ExitFinder.jumps`."""
        for address, word in jumps(code):
            distance = jump(word)
            if distance is not None and address + distance in to:
                yield address

    def surely_returns(
        self, code: memoryview, address: int, returns: Callable[[int], bool]
    ) -> bool:
        """See `lbtrace.machine.ExitFinder.surely_returns`."""
        return False

    def never_returns(self, body: Body, around: Around) -> bool:
        """See `lbtrace.machine.ExitFinder.never_returns`."""
        return never_returns(body, around)


def _site(flow: Flow, address: int) -> Site | str:
    """The place of a probe, or why there can be none."""
    part = flow.part(address)
    assert part is not None
    word = flow.instructions[address]
    offset = part.offset + address - part.address
    site = Site(address, offset, 0, f"{word:08x}", is_simulated(word))
    if is_ret(word) or is_b(word):
        return site
    if is_br(word):
        ranges = relative_ranges(flow.parts, address, 4)
        if not is_plain_br(word) or len(ranges) > RANGES:
            return f"the jump at {address:#x} may leave the function"
        why = "counts where it leaves the function"
        return replace(site, reason=why, jump=Jump(f"x{word >> 5 & 31}", inside=ranges))
    why = "counts where it jumps"
    if (code := condition(word)) is not None:
        unless, only = CONDITIONS[code]
        return replace(site, reason=why, unless=unless, only=only)
    return f"no flag says whether the jump at {address:#x} is taken"
