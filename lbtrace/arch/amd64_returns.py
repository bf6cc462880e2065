"""Where an x86-64 function is left: its ``ret`` instructions and the jumps to other functions.

The function's code is followed from its first instruction along every direct
jump, into the parts that compilers split off. What is not reached that way
(targets of jump tables, landing pads of exceptions) is entered at the first
byte nothing reached, as a linear disassembler would; bytes that make no
sense there, or run into the midst of known instructions, are data.

The distance of the stack pointer from its value at entry is tracked, since a
tail call happens where it is zero again. Where it cannot be told whether a jump
leaves the function, the probe on it finds out (`lbtrace.arch.amd64_jumps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind

from lbtrace.arch import Code, Exit, ExitKind, Exits
from lbtrace.arch.amd64_jumps import conditions, is_switch, target, test
from lbtrace.arch.amd64_sites import is_emulated_branch, is_refused
from lbtrace.arch.amd64_stack import ENTRY, UNKNOWN, Stack
from lbtrace.arch.extent import inside
from lbtrace.model import Site
from lbtrace.model.jumps import INSIDE

PARTS = 64
"""Parts of one function that are followed, at most."""

LINEAR = "reached through a jump table or an exception, or not at all"
"""The reason of a site that only linear decoding found."""

_GOES_ON = frozenset(
    {FlowControl.NEXT, FlowControl.CALL, FlowControl.INDIRECT_CALL, FlowControl.INTERRUPT}
)
_BRANCHES_OFF = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.XBEGIN_XABORT_XEND})
_JUMPS = _BRANCHES_OFF | {FlowControl.UNCONDITIONAL_BRANCH}
_TRANSACTIONS = frozenset({Mnemonic.XABORT, Mnemonic.XEND})
_HISTORY = 8


class _Way(NamedTuple):
    """An instruction to go on from."""

    address: int
    stack: Stack


class _Out(NamedTuple):
    """An instruction by which the function is left; the stack pointer is ``sinks`` bytes
    below its value at entry there. A ``computed`` jump may also stay."""

    instruction: Instruction
    kind: ExitKind
    sinks: int = 0
    computed: bool = False


class Amd64ExitFinder:
    """Finds the exits of functions; keeps the formatter between them."""

    def __init__(self) -> None:
        self._formatter = iced_x86.FastFormatter()

    def exits(
        self, parts: Sequence[Code], more: Callable[[int], Code | None], pads: Sequence[int] = ()
    ) -> Exits:
        """See `lbtrace.arch.ExitFinder.exits`."""
        body = _Body(parts, more)
        body.follow(_Way(parts[0].address, ENTRY))
        for pad in pads:
            if body.knows(pad):
                body.follow(_Way(pad, UNKNOWN))
        direct = len(body.found)
        body.enter_gaps()
        found: list[Exit] = []
        for number, out in enumerate(body.found):
            site = self._site(body, out, LINEAR if number >= direct else "")
            if isinstance(site, str):
                body.hidden.append(site)
            else:
                found.append(Exit(out.kind, site))
        found.sort(key=lambda exit: exit.site.address)
        return Exits(tuple(found), tuple(dict.fromkeys(body.hidden)))

    def _site(self, body: _Body, out: _Out, reason: str) -> Site | str:
        """The place of a probe, or why there can be none."""
        instruction = out.instruction
        raw, offset = body.raw(instruction)
        if is_refused(raw):
            return f"the kernel refuses a probe at {instruction.ip:#x}"
        jump = None
        if out.computed:
            inside = body.inside(instruction.ip)
            jump = target(instruction, inside) if len(inside) <= INSIDE else None
            if jump is None:
                return f"the jump at {instruction.ip:#x} may leave the function or not"
            reason = "counts where it leaves the function"
        unless, only = conditions(instruction)
        asked = test(instruction)
        if unless or only or asked:
            reason = "counts where it jumps"
        return Site(
            instruction.ip,
            offset,
            out.sinks,
            self._formatter.format(instruction),
            is_emulated_branch(raw),
            "" if out.kind == "tail" and reason == LINEAR else reason,
            unless,
            only,
            jump,
            asked,
        )


class _Body:
    """The code of a function as far as it is known.

    ``found`` are the exits, ``hidden`` tells ways out that no probe can watch.
    """

    def __init__(self, parts: Sequence[Code], more: Callable[[int], Code | None]) -> None:
        self.found: list[_Out] = []
        self.hidden: list[str] = []
        self._more = more
        self._whole = list(parts)
        self._parts: list[Code] = []
        self._decoders: list[Decoder] = []
        self._seen: dict[int, int] = {}
        self._switched: set[Stack] = set()
        for part in parts:
            self._add(part)

    def part(self, address: int) -> Code | None:
        """The part that holds ``address``."""
        for part in self._parts:
            if part.address <= address < part.address + len(part.code):
                return part
        return None

    def knows(self, address: int) -> bool:
        """Whether ``address`` is in this function's code; looks for more of it, if need be."""
        if self.part(address) is None and len(self._parts) < PARTS:
            part = self._more(address)
            if part is not None:
                self._add(part)
        return self.part(address) is not None

    def inside(self, jump: int) -> tuple[tuple[int, int], ...]:
        """Where the function's code lies, as distances from ``jump``, without its first byte."""
        return inside(self._parts, jump, 1)

    def raw(self, instruction: Instruction) -> tuple[bytes, int]:
        """The bytes of an instruction, and their position in the file."""
        part = self.part(instruction.ip)
        assert part is not None
        into = instruction.ip - part.address
        return part.code[into : into + instruction.len], part.offset + into

    def follow(self, way: _Way) -> bool:
        """Follow the code from ``way`` on; false where it turns out not to be code."""
        ways = [way]
        sense = True
        while ways:
            way = ways.pop()
            if way.address not in self._seen:
                sense &= self._run(way, ways)
        return sense

    def enter_gaps(self) -> None:
        """Follow what was not reached, from its first byte on."""
        for part in self._whole:
            address, end = part.address, part.address + len(part.code)
            while address < end:
                if address in self._seen:
                    address = self._seen[address]
                    continue
                known = len(self.found), len(self.hidden)
                if self._is_code(part, address) and self.follow(_Way(address, self._unreached())):
                    continue
                del self.found[known[0] :], self.hidden[known[1] :]
                address = self._next_known(address, end)

    def _unreached(self) -> Stack:
        """The stack where code begins that only a jump through a table leads to: as it
        was at the jump."""
        return next(iter(self._switched)) if len(self._switched) == 1 else UNKNOWN

    def _is_code(self, part: Code, address: int) -> bool:
        """Whether straight decoding from ``address`` meets only whole instructions
        and does not run into the midst of a known one."""
        for instruction in self._decoder(part, address):
            ip = instruction.ip
            if ip in self._seen:
                break
            inside = range(ip + 1, ip + instruction.len)
            if instruction.is_invalid or not self._seen.keys().isdisjoint(inside):
                return False
            if instruction.flow_control not in _GOES_ON:
                break
        return True

    def _next_known(self, address: int, end: int) -> int:
        while address < end and address not in self._seen:
            address += 1
        return address

    def _add(self, part: Code) -> None:
        self._parts.append(part)
        self._decoders.append(Decoder(64, part.code, ip=part.address))

    def _decoder(self, part: Code, address: int) -> Decoder:
        decoder = self._decoders[self._parts.index(part)]
        decoder.position = address - part.address
        decoder.ip = address
        return decoder

    def _run(self, way: _Way, ways: list[_Way]) -> bool:
        """Follow one straight line to its end, and note where it branches."""
        part = self.part(way.address)
        if part is None:
            return True
        seen, stack = self._seen, way.stack
        history: list[Instruction] = []
        for instruction in self._decoder(part, way.address):
            ip = instruction.ip
            if ip in seen:
                return True
            if instruction.is_invalid:
                return False
            seen[ip] = instruction.next_ip
            flow = instruction.flow_control
            if flow == FlowControl.NEXT:
                stack = stack.behind(instruction)
                history.append(instruction)
            elif flow not in _GOES_ON:
                self._branch(instruction, stack, history, ways)
                if flow not in _BRANCHES_OFF:
                    return True
        return True

    def _branch(
        self, instruction: Instruction, stack: Stack, history: list[Instruction], ways: list[_Way]
    ) -> None:
        flow = instruction.flow_control
        if flow == FlowControl.RETURN:
            if instruction.mnemonic == Mnemonic.RET:
                self.found.append(_Out(instruction, "return"))
            else:
                self.hidden.append(f"the return at {instruction.ip:#x} is no near return")
        elif flow == FlowControl.INDIRECT_BRANCH:
            self._indirect(instruction, stack, history[-_HISTORY:])
        elif flow in _JUMPS and instruction.mnemonic not in _TRANSACTIONS:
            self._jump(instruction, stack, ways)

    def _jump(self, instruction: Instruction, stack: Stack, ways: list[_Way]) -> None:
        if instruction.op0_kind != OpKind.NEAR_BRANCH64:
            self.hidden.append(f"the jump at {instruction.ip:#x} is a far jump")
            return
        target = instruction.near_branch_target
        if target == self._whole[0].address:  # the probe at entry fires again
            self._leave(instruction, stack)
            return
        # With nothing on the stack it is a tail call, whatever lies there.
        always = instruction.flow_control == FlowControl.UNCONDITIONAL_BRANCH
        if self.part(target) or (not (always and stack.pointer == 0) and self.knows(target)):
            ways.append(_Way(target, stack))
        else:
            self._leave(instruction, stack)

    def _leave(self, instruction: Instruction, stack: Stack) -> None:
        always = instruction.flow_control == FlowControl.UNCONDITIONAL_BRANCH
        if always or instruction.is_jcc_short_or_near or test(instruction):
            self.found.append(_Out(instruction, "tail", stack.pointer or 0))
        else:
            self.hidden.append(f"no flag says whether the jump at {instruction.ip:#x} is taken")

    def _indirect(
        self, instruction: Instruction, stack: Stack, history: Sequence[Instruction]
    ) -> None:
        if stack.pointer or is_switch(instruction, history):
            self._switched.add(stack)
            return
        # Through memory at an address of its own: through a pointer to a function.
        computed = not instruction.is_ip_rel_memory_operand
        self.found.append(_Out(instruction, "tail", computed=computed))
