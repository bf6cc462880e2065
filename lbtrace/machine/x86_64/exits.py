"""Where an x86-64 function is left: its ``ret`` instructions and the jumps to other functions.

The distance of the stack pointer from its value at entry is tracked, since a
tail call happens where it is zero again. Where it is unknown whether a jump leaves the function,
the probe on it finds out (`lbtrace.machine.x86_64.branches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import iced_x86
from iced_x86 import Decoder, FlowControl

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code, EpilogueEntry, Exit, Exits
from lbtrace.machine.code_ranges import may_come_back, relative_ranges
from lbtrace.machine.code_scan import find_jumps, pass_over
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.interface import ExitFinder
from lbtrace.machine.x86_64.branches import conditions, target
from lbtrace.machine.x86_64.control_flow import Flow, Flows
from lbtrace.machine.x86_64.kernel_rules import ALIKE
from lbtrace.machine.x86_64.reached_code import Out
from lbtrace.machine.x86_64.restores import Steps
from lbtrace.model import Site
from lbtrace.model.wire_limits import RANGES

_COMPUTED = re.compile(rb"\xff[\x20-\x24\x26\x27\x60-\x67\xa0-\xa7\xe0-\xe7]")
"""Whatever may be a jump to where a register or a table says: Intel SDM volume 2, JMP."""

LONGEST = 15
"""Bytes of an instruction, at most (Intel SDM 2.3.11)."""

_FAR = re.compile(rb"\x0f[\x80-\x8f](?=(....))", re.DOTALL)
"""Conditional jumps that lead farther than 128 bytes, as to parts apart."""


class Finder(ExitFinder):
    """Finds the exits of functions; keeps the formatter between them."""

    def __init__(self) -> None:
        self._formatter = iced_x86.FastFormatter()
        self._written: dict[bytes, str] = {}
        self._steps = Steps()
        self._flows = Flows()
        self._left = ffi.new("struct lbt_left *")

    def exits(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> Exits:
        """See `lbtrace.machine.ExitFinder.exits`."""
        return self._flows.follow(parts, around, pads, lambda flow: self._exits(flow, around, pads))

    def _exits(self, flow: Flow, around: Around, pads: Sequence[int]) -> Exits:
        hidden = list(flow.hidden.values())
        found: list[Exit] = []
        entries = 0
        left = self._look(flow, pads)
        for number in range(left.exit_count):
            exit = left.exits[number]
            out = flow.outs[exit.address]
            site = self._site(flow, exit, out)
            if isinstance(site, str):
                hidden.append(site)
            elif out.kind == "return":
                last = entries + exit.entries
                entered = [self._entry(flow, left.entries[n], site) for n in range(entries, last)]
                found.append(Exit(out.kind, site, tuple(entered)))
                entries = last
            else:
                slot = exit.slot
                target = around.word(slot) or 0 if slot else exit.target
                found.append(Exit(out.kind, site, target=target, slot=slot))
        found.sort(key=lambda exit: exit.site.address)
        landing_pads = tuple(filter(flow.is_certain, pads))
        return Exits(tuple(found), tuple(dict.fromkeys(hidden)), flow.loops_to_entry, landing_pads)

    def _look(self, flow: Flow, pads: Sequence[int]) -> Any:
        """What native code says of the exits (``struct lbt_left``)."""
        outs, native = flow.outs, flow.native
        known = not (flow.hidden or flow.loses_stack or any(o.computed for o in outs.values()))
        for pad in filter(flow.part, pads) if known else ():
            lib.lbt_flow_land(native, pad)
        self._steps = self._steps.limited()
        steps, left, given = self._steps, self._left, ffi.new("uint64_t[]", [*outs])
        while found := lib.lbt_flow_exits(native, steps.native, given, len(outs), known, left):
            if found != lib.LBT_UNKNOWN_STEP:
                raise MemoryError
            step = left.unknown
            steps.learn(step.restored, flow.raw_of(step.address, step.length)[0])
        return left

    def _entry(self, flow: Flow, entry: Any, ret: Site) -> EpilogueEntry:
        """A probe on an entry of the epilogue of a return."""
        address, length, condition = entry.address, entry.length, entry.condition
        raw, offset = flow.raw_of(address, length)
        restored = self._steps.restored[entry.restored]
        if entry.other >= 0:
            restored = restored.agreed(self._steps.restored[entry.other])
        reason = f"leads to the ret at {ret.address:#x}"
        unless = only = 0
        if entry.leads != lib.LBT_ALWAYS:
            unless, only = conditions(condition)
            if entry.leads == lib.LBT_JUMPS:
                reason += ", counts where it jumps"
            else:
                unless, only = only, unless
                reason += ", counts where it does not jump"
        emulated = bool(entry.emulated)
        shown = self._shown(raw, address)
        site = Site(address, offset, entry.sinks, shown, emulated, reason, unless, only)
        return EpilogueEntry(site, restored.origins, restored.stores)

    def _shown(self, raw: bytes, address: int) -> str:
        """How an instruction is written."""
        shown = self._written.get(raw)
        if shown is None:
            instruction = Decoder(64, raw, ip=address).decode()
            shown = self._formatter.format(instruction)
            jumps = instruction.flow_control not in (FlowControl.NEXT, FlowControl.RETURN)
            if not (jumps or instruction.is_ip_rel_memory_operand) and len(self._written) < ALIKE:
                self._written[raw] = shown
        return shown

    def reached(
        self,
        parts: Sequence[Code],
        around: Around,
        pads: Sequence[int] = (),
        *,
        uncertain: bool = False,
    ) -> dict[int, int]:
        """See `lbtrace.machine.ExitFinder.reached`."""
        return self._flows.follow(parts, around, pads, lambda flow: flow.reached(uncertain))

    def leads_to(self, code: Code, address: int) -> bool:
        """See `lbtrace.machine.ExitFinder.leads_to`."""
        at, end = 0, address - code.address
        while (at := pass_over(code.code, at, end)) < end:
            decoder = Decoder(64, code.code[at : at + LONGEST], ip=code.address + at)
            instruction = decoder.decode()
            if instruction.is_invalid:
                return False
            at += instruction.len
        return at == end

    def may_loop_to_entry(self, parts: Sequence[Code]) -> bool:
        """See `lbtrace.machine.ExitFinder.may_loop_to_entry`. Nothing is decoded."""
        code, start = parts[0], parts[0].address
        back = self.jumps(code, range(start, start + 1))
        if _COMPUTED.search(code.code) or any(True for _ in back):
            return True
        branches = (
            start + match.end() + len(match[1]) + int.from_bytes(match[1], "little", signed=True)
            for match in _FAR.finditer(code.code)
        )
        return may_come_back(parts, branches, self.jumps)

    def jumps(self, code: Code, to: range) -> Iterator[int]:
        """See `lbtrace.machine.ExitFinder.jumps`."""
        return (code.address + at for at in find_jumps(code.code, code.address, to))

    def surely_returns(
        self, code: memoryview, address: int, returns: Callable[[int], bool]
    ) -> bool:
        """See `lbtrace.machine.ExitFinder.surely_returns`."""
        return self._flows.surely_returns(code, address, returns)

    def never_returns(self, body: Body, around: Around) -> bool:
        """See `lbtrace.machine.ExitFinder.never_returns`."""
        return self._flows.never_returns(body, around)

    def _site(self, flow: Flow, exit: Any, out: Out) -> Site | str:
        """The place of a probe, or why there can be none."""
        ip = exit.address
        if exit.unfit == lib.LBT_REFUSED:
            return f"the kernel refuses a probe at {ip:#x}"
        if exit.unfit:
            return f"what is at {ip:#x} is not certain to be an instruction"
        raw, offset = flow.raw_of(ip, exit.length)
        shown = self._shown(raw, ip)
        if out.kind == "return":
            return Site(ip, offset, out.sinks, shown, False)
        reason = ""
        jump = None
        if out.computed:
            # A jump to the first byte starts the function again.
            ranges = relative_ranges(flow.parts, ip, 1)
            jump = target(flow.instructions[ip], ranges) if len(ranges) <= RANGES else None
            if jump is None:
                return f"the jump at {ip:#x} may leave the function or not"
            reason = "counts where it leaves the function"
        if exit.condition == lib.LBT_TESTS_REGISTER:
            return f"no flag says whether the jump at {ip:#x} is taken"
        unless, only = conditions(exit.condition)
        if unless or only:
            reason = "counts where it jumps"
        emulated = bool(exit.emulated)
        return Site(ip, offset, out.sinks, shown, emulated, reason, unless, only, jump)
