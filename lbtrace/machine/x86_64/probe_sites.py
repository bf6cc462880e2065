"""Chooses the cheapest safe site for a uprobe in an x86-64 function.

The kernel emulates a few instructions under a breakpoint and single-steps
the others at some twenty times the cost; a few it refuses. `kernel_rules` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic

from lbtrace.machine.code import Code, FloatSpills, Read
from lbtrace.machine.interface import UNFIT, SitePlanner
from lbtrace.machine.x86_64.candidates import Candidate, branches_of, site_of, why_unsafe
from lbtrace.machine.x86_64.kernel_rules import (
    ALIKE,
    is_emulated_push,
    is_long_nop,
    is_refused,
)
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES, added_number
from lbtrace.model import Fetch, Site

PREFIX_LIMIT = 16
"""Instructions looked at before the search for a cheap place is given up."""

NOP = "kernels may put a call in the place of the nop there"
"""Why no probe is on one, as a clause for users."""

AVOIDED = "kernels may put a call in the place of the nop before it"

_REASONS = (
    "emulated",
    "emulated from Linux 6.16 on",
    "no emulated instruction is within reach",
)
"""Why a place was chosen, by its cost."""


class Planner(SitePlanner):
    """Chooses probe places; keeps the decoder's helpers between functions."""

    def __init__(self) -> None:
        self._formatter = iced_x86.FastFormatter()

    def choose(
        self,
        code: Code,
        keep: Collection[str],
        *,
        returns: bool,
        begins: Callable[[], bool] = lambda: True,
        never_back: Callable[[int], bool] = lambda target: False,
    ) -> Site | None:
        """See `lbtrace.machine.SitePlanner.choose`."""
        raw = code.code[: 1 + code.code.startswith(b"\x41")]
        if is_emulated_push(raw):  # most functions begin so
            return Site(code.address, code.offset, 0, _shown(raw), True, _REASONS[0])
        places: list[Candidate] = []
        nop = 1 << 64
        first = ""
        for place in self._prefix(code, keep, returns=returns):
            if is_long_nop(place.instruction):
                nop = min(nop, place.instruction.ip)
                continue
            places.append(place)
            if not place.cost:
                break
        branches: list[Instruction] = []
        for place in sorted(places, key=lambda p: p.cost):
            found = ""
            behind = nop < place.instruction.ip
            if place.instruction.ip != code.address:
                branches = branches or [*branches_of(code)]
                found = why_unsafe(
                    code, branches, place, never_back=never_back if behind else lambda to: False
                )
            if not found:
                obstacle = first if place.cost else ""
                reason = obstacle or (AVOIDED if behind else _REASONS[place.cost])
                return site_of(code, place, self._formatter, reason)
            first = first or found
        return None

    def point(self, code: Code) -> Site | str:
        """See `lbtrace.machine.SitePlanner.point`."""
        instruction = Decoder(64, code.code[:15], ip=code.address).decode()
        raw = code.code[: instruction.len]
        place = Candidate(instruction, raw, 0)
        if is_long_nop(instruction):
            return NOP
        if instruction.is_invalid or is_refused(raw):
            return UNFIT
        return site_of(code, place, self._formatter, _REASONS[place.cost])

    def spills(self, code: Code, read: Read) -> Iterator[FloatSpills]:
        """See `lbtrace.machine.SitePlanner.spills`."""
        # Imported here because few functions need it.
        from lbtrace.machine.x86_64 import float_spills

        return float_spills.find_spills(code, read, self._formatter)

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """See `lbtrace.machine.SitePlanner.results`."""
        # Imported here because few functions need it.
        from lbtrace.machine.x86_64 import float_results

        return float_results.results(code, returns, read)

    def _prefix(self, code: Code, keep: Collection[str], *, returns: bool) -> Iterator[Candidate]:
        """The places of the straight-line start, in order, that the kernel accepts; and long
        nops."""
        delta = 0
        limit = max(min(code.limit, code.address + len(code.code)), code.address + 1)
        decoder = Decoder(64, code.code[: PREFIX_LIMIT * 15], ip=code.address)
        for _, instruction in zip(range(PREFIX_LIMIT), decoder, strict=False):
            at = instruction.ip - code.address
            if instruction.is_invalid or instruction.ip >= limit:
                return
            raw = code.code[at : at + instruction.len]
            if not is_refused(raw) or is_long_nop(instruction):
                yield Candidate(instruction, raw, delta)
            if instruction.flow_control != FlowControl.NEXT:
                return
            step = _written(raw)
            if step is None or (step[0] and returns) or not step[1].isdisjoint(keep):
                return
            delta += step[0]


@lru_cache
def _shown(push: bytes) -> str:
    """How an instruction is written that is the same everywhere."""
    return iced_x86.FastFormatter().format(Decoder(64, push).decode())


@lru_cache(ALIKE)
def _written(raw: bytes) -> tuple[int, frozenset[str]] | None:
    """How far the stack pointer sinks if a probe is placed after the instruction ``raw`` instead,
    and the other registers that it writes.

    None if it writes memory, or moves the stack pointer in a way not understood.
    """
    instruction = Decoder(64, raw).decode()
    info = iced_x86.InstructionInfoFactory().info(instruction)
    if any(memory.access in WRITES for memory in info.used_memory()):
        return None
    written = (used.register for used in info.used_registers() if used.access in WRITES)
    full = map(iced_x86.RegisterExt.full_register, written)
    names = frozenset(REGISTERS.get(register, "") for register in full)
    if "sp" not in names:
        return 0, names
    number = added_number(instruction) if instruction.mnemonic == Mnemonic.SUB else None
    return None if number is None or number < 0 else (number, names - {"sp"})
