"""Where an x86-64 function is left: its ``ret`` instructions and the jumps to other functions.

The distance of the stack pointer from its value at entry is tracked, since a
tail call happens where it is zero again. Where it is unknown whether a jump leaves the function,
the probe on it finds out (`lbtrace.machine.x86_64.branches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import iced_x86

from lbtrace.machine.code import Code, Exit, Exits
from lbtrace.machine.code_ranges import may_come_back, relative_ranges
from lbtrace.machine.code_scan import find_jumps, pass_over
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.interface import ExitFinder
from lbtrace.machine.x86_64.branches import conditions, target, tests_register
from lbtrace.machine.x86_64.control_flow import Flow, Flows
from lbtrace.machine.x86_64.epilogues import Epilogues
from lbtrace.machine.x86_64.kernel_rules import is_emulated_branch, is_refused
from lbtrace.machine.x86_64.reached_code import Out
from lbtrace.machine.x86_64.restores import Steps
from lbtrace.model import Site
from lbtrace.model.wire_limits import RANGES

_COMPUTED = re.compile(rb"\xff[\x20-\x24\x26\x27\x60-\x67\xa0-\xa7\xe0-\xe7]")
"""Whatever may be a jump to where a register or a table says: Intel SDM volume 2, JMP."""

_FAR_BACK = re.compile(rb"(?:\xe9|\x0f[\x80-\x8f])(?=(..[\x00-\xff]\xff))", re.DOTALL)
"""Whatever may be a jump backward by up to 16 MB: Jcc, JMP."""

_SHORT_BACK = re.compile(rb"[\x70-\x7f\xe0-\xe3\xeb](?=([\x80-\xfe]))")
"""Whatever may be a jump backward by up to 128 bytes: Jcc, JMP, JRCXZ, LOOP."""

LONGEST = 15
"""Bytes of an instruction, at most (Intel SDM 2.3.11)."""

_SHORT = 128
"""The bytes within which a short jump leads back to a function's first instruction."""

_FAR = re.compile(rb"\x0f[\x80-\x8f](?=(....))", re.DOTALL)
"""Conditional jumps that lead farther than 128 bytes, as to parts apart."""


class Finder(ExitFinder):
    """Finds the exits of functions; keeps the formatter between them."""

    def __init__(self) -> None:
        self._formatter = iced_x86.FastFormatter()
        self._steps = Steps()
        self._flows = Flows()

    def exits(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> Exits:
        """See `lbtrace.machine.ExitFinder.exits`."""
        return self._flows.follow(parts, around, pads, lambda flow: self._exits(flow, around, pads))

    def _exits(self, flow: Flow, around: Around, pads: Sequence[int]) -> Exits:
        found: list[Exit] = []
        hidden = list(flow.hidden.values())
        self._steps = self._steps.limited()
        epilogues = Epilogues(flow, pads, self._steps, self._formatter.format)
        for out in flow.outs.values():
            site = self._site(flow, out)
            if isinstance(site, str):
                hidden.append(site)
            elif out.kind == "return":
                found.append(Exit(out.kind, site, epilogues.entries(site.address)))
            else:
                target, slot = _target(out.instruction, around)
                found.append(Exit(out.kind, site, target=target, slot=slot))
        found.sort(key=lambda exit: exit.site.address)
        known = flow.instructions
        landing_pads = tuple(p for p in pads if (at := known.get(p)) and flow.is_certain(p, at.len))
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
        return self._flows.follow(parts, around, pads, lambda flow: flow.reached(uncertain))

    def leads_to(self, code: Code, address: int) -> bool:
        """See `lbtrace.machine.ExitFinder.leads_to`."""
        at, end = 0, address - code.address
        while (at := pass_over(code.code, at, end)) < end:
            decoder = iced_x86.Decoder(64, code.code[at : at + LONGEST], ip=code.address + at)
            instruction = decoder.decode()
            if instruction.is_invalid:
                return False
            at += instruction.len
        return at == end

    def may_loop_to_entry(self, parts: Sequence[Code]) -> bool:
        """See `lbtrace.machine.ExitFinder.may_loop_to_entry`. Nothing is decoded."""
        code = parts[0]
        if _COMPUTED.search(code.code):
            return True
        short = _leads(_SHORT_BACK, code.code[:_SHORT])
        far = _leads(_FAR_BACK, code.code)
        if not all(to for found in (short, far) for _, to in found):
            return True
        branches = (code.address + to for _, to in _leads(_FAR, code.code))
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

    def _site(self, flow: Flow, out: Out) -> Site | str:
        """The place of a probe, or why there can be none."""
        instruction = out.instruction
        ip = instruction.ip
        raw, offset = flow.raw_of(ip, instruction.len)
        if is_refused(raw):
            return f"the kernel refuses a probe at {ip:#x}"
        if not flow.is_certain(ip, len(raw)):
            return f"what is at {ip:#x} is not certain to be an instruction"
        if out.kind == "return":
            return Site(ip, offset, out.sinks, self._formatter.format(instruction), False)
        reason = ""
        jump = None
        if out.computed:
            # A jump to the first byte starts the function again.
            ranges = relative_ranges(flow.parts, ip, 1)
            jump = target(instruction, ranges) if len(ranges) <= RANGES else None
            if jump is None:
                return f"the jump at {ip:#x} may leave the function or not"
            reason = "counts where it leaves the function"
        unless, only = conditions(instruction)
        if unless or only:
            reason = "counts where it jumps"
        if tests_register(instruction):
            return f"no flag says whether the jump at {instruction.ip:#x} is taken"
        return Site(
            ip,
            offset,
            out.sinks,
            self._formatter.format(instruction),
            is_emulated_branch(raw),
            reason,
            unless,
            only,
            jump,
        )


def _leads(jumps: re.Pattern[bytes], code: bytes) -> Iterator[tuple[int, int]]:
    """Where in ``code`` what looks like ``jumps`` begins and leads."""
    for match in jumps.finditer(code):
        distance = match[1]
        end = match.end() + len(distance)
        yield match.start(), end + int.from_bytes(distance, "little", signed=True)


def _target(jump: iced_x86.Instruction, around: Around) -> tuple[int, int]:
    """Where a jump leads, if that is known, and the word of memory that it goes through."""
    if jump.op0_kind == iced_x86.OpKind.NEAR_BRANCH64:
        return jump.near_branch_target, 0
    slot = jump.ip_rel_memory_address if jump.is_ip_rel_memory_operand else 0
    return (around.word(slot) or 0 if slot else 0), slot
