"""Chooses the cheapest safe site for a uprobe in an x86-64 function.

The kernel emulates a few instructions under a breakpoint and single-steps
the others at some twenty times the cost; a few it refuses. `kernel_rules` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic

from lbtrace.machine.code import Code, FloatSpills, Read
from lbtrace.machine.interface import SitePlanner
from lbtrace.machine.long_nops import UNFIT, AskNop, avoid_nops
from lbtrace.machine.x86_64.candidates import Candidate, branches_of, site_of, why_unsafe
from lbtrace.machine.x86_64.kernel_rules import is_long_nop, is_refused
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES, added_number
from lbtrace.model import Fetch, Site

PREFIX_LIMIT = 16
"""Instructions looked at before the search for a cheap place is given up."""

AVOIDED = "not the nop at the start: "

_REASONS = (
    "emulated",
    "emulated from Linux 6.16 on",
    "no emulated instruction is within reach",
)
"""Why a place was chosen, by its cost."""


class Planner(SitePlanner):
    """Chooses probe places; keeps the decoder's helpers between functions."""

    def __init__(self, ask_nop: AskNop = avoid_nops) -> None:
        self._ask_nop = ask_nop
        self._info = iced_x86.InstructionInfoFactory()
        self._formatter = iced_x86.FastFormatter()

    def choose(
        self,
        code: Code,
        keep: Collection[str],
        *,
        returns: bool,
        begins: bool = True,
        nops: bool = True,
        never_back: Callable[[int], bool] = lambda target: False,
    ) -> Site | None:
        """See `lbtrace.machine.SitePlanner.choose`."""
        places: list[Candidate] = []
        begin = _behind_endbr(code) if begins and nops else -1
        avoids = False
        first = reason = ""
        for place in self._prefix(code, keep, returns=returns):
            if is_long_nop(place.instruction):
                if not code.address <= place.instruction.ip <= begin:
                    continue
                use = self._ask_nop(place.raw)
                place.quick, reason = use.quick, use.reason if use.safe else AVOIDED + use.reason
                if not (use.quick or (use.safe and not is_refused(place.raw))):
                    avoids = True
                    continue
            places.append(place)
            if not place.cost:
                break
        branches: list[Instruction] = []
        for place in sorted(places, key=lambda p: p.cost):
            found = ""
            if place.instruction.ip != code.address:
                branches = branches or [*branches_of(code)]
                found = why_unsafe(
                    code, branches, place, never_back=never_back if avoids else lambda to: False
                )
            if not found:
                obstacle = first if place.cost else ""
                reason = obstacle or reason or _REASONS[place.cost]
                return site_of(code, place, self._formatter, reason)
            first = first or found
        return None

    def point(self, code: Code, red_zone_use: Callable[[], str]) -> Site | str:
        """See `lbtrace.machine.SitePlanner.point`."""
        instruction = Decoder(64, code.code[:15], ip=code.address).decode()
        raw = code.code[: instruction.len]
        place = Candidate(instruction, raw, 0)
        if is_long_nop(instruction):
            use = self._ask_nop(raw)
            if not use.safe:
                return use.reason
            if use.quick and (kept := red_zone_use()):
                return f"the kernel would put a call in its place, and {kept}"
            place.quick = use.quick
        if instruction.is_invalid or (is_refused(raw) and not place.quick):
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
        """The places of the straight-line start, in order, that the kernel accepts; and long nops,
        which some kernels accept."""
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
            step = self._passes(instruction, keep)
            if step is None or (step and returns):
                return
            delta += step

    def _passes(self, instruction: Instruction, keep: Collection[str]) -> int | None:
        """How far the stack pointer sinks if a probe is placed after ``instruction`` instead.

        None if it writes memory or a register of ``keep``, or moves the
        stack pointer in a way not understood.
        """
        info = self._info.info(instruction)
        if any(memory.access in WRITES for memory in info.used_memory()):
            return None
        sinks = 0
        for used in info.used_registers():
            if used.access not in WRITES:
                continue
            name = REGISTERS.get(iced_x86.RegisterExt.full_register(used.register), "")
            if name == "sp":
                number = added_number(instruction) if instruction.mnemonic == Mnemonic.SUB else None
                if number is None or number < 0:
                    return None
                sinks = number
            elif name in keep:
                return None
        return sinks


def _behind_endbr(code: Code) -> int:
    """The first address of a function at which it does something."""
    first = Decoder(64, code.code[:15], ip=code.address).decode()
    return first.next_ip if first.mnemonic == Mnemonic.ENDBR64 else first.ip
