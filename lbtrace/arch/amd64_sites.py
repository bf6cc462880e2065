"""Where in an x86-64 function a uprobe stands best.

The kernel emulates a few instructions under a breakpoint and single-steps
the others at some twenty times the cost; a few it refuses. The rules are
those of ``arch/x86/kernel/uprobes.c``: ``uprobe_init_insn`` (what is
refused), ``branch_setup_xol_ops`` and ``push_setup_xol_ops`` (what is
emulated). Where kernels from 5.10 to 6.18 differ, the strictest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register

from lbtrace.arch import Code, Read, Stored
from lbtrace.model import Fetch, Site

PREFIX_LIMIT = 16
"""Instructions looked at before the search for a cheap place is given up."""

LEGACY_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
REFUSED_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\xf0")
"""``is_prefix_bad``: ES, CS, SS, DS, LOCK."""

REFUSED_OPCODES = frozenset(
    b"\x06\x07\x0e\x16\x17\x1e\x1f\x27\x2f\x37\x3f\x60\x61\x62\x6c\x6d\x6e\x6f"
    b"\x82\x9a\xcc\xcd\xce\xcf\xd4\xd5\xd6\xe4\xe5\xe6\xe7\xea\xec\xed\xee\xef\xf1\xf4\xfa\xfb"
)
"""Zeros of ``good_insns_64``."""

LONG_NOPS = frozenset(
    bytes.fromhex(code)
    for code in (
        "0f1f00",
        "0f1f4000",
        "0f1f440000",
        "660f1f440000",
        "0f1f8000000000",
        "0f1f840000000000",
    )
)
"""``x86_nops`` of ``arch/x86/include/asm/nops.h``, 3 to 8 bytes: emulated from Linux 6.16 on."""

_FALLS_THROUGH = FlowControl.NEXT
_LEAVES = frozenset({FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION})
_JUMPS = frozenset(
    {
        FlowControl.CONDITIONAL_BRANCH,
        FlowControl.UNCONDITIONAL_BRANCH,
        FlowControl.XBEGIN_XABORT_XEND,
    }
)
WRITES = frozenset(
    {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
)
REGISTERS = {
    getattr(Register, "R" + name.upper()): name
    for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
} | {getattr(Register, f"R{n}"): f"r{n}" for n in range(8, 16)}


class Place:
    """An instruction of a function's straight-line start at which a probe could stand."""

    __slots__ = ("cost", "delta", "instruction", "push")

    def __init__(self, instruction: Instruction, raw: bytes, delta: int) -> None:
        self.instruction = instruction
        self.delta = delta
        self.push = is_emulated_push(raw)
        if self.push or is_emulated_branch(raw):
            self.cost = 0
        else:
            self.cost = 1 if raw in LONG_NOPS else 2


_REASONS = (
    "emulated",
    "emulated from Linux 6.16 on",
    "no emulated instruction is within reach",
)
"""Why a place was chosen, by its cost."""


class Amd64Planner:
    """Chooses probe places; keeps the decoder's helpers between functions."""

    def __init__(self) -> None:
        self._info = iced_x86.InstructionInfoFactory()
        self._formatter = iced_x86.FastFormatter()

    def choose(self, code: Code, keep: Collection[str], *, returns: bool) -> Site | None:
        """See `lbtrace.arch.Planner.choose`."""
        places: list[Place] = []
        for place in self._prefix(code, keep, returns=returns):
            places.append(place)
            if not place.cost:
                break
        first = ""
        branches: list[Instruction] = []
        for place in sorted(places, key=lambda p: p.cost):
            found = ""
            if place.instruction.ip != code.address:
                branches = branches or [*branches_of(code)]
                found = obstacle(code, branches, place)
            if not found:
                reason = first if first and place.cost else _REASONS[place.cost]
                return site_of(code, place, self._formatter, reason)
            first = first or found
        return None

    def stored(self, code: Code, read: Read) -> Iterator[Stored]:
        """See `lbtrace.arch.Planner.stored`."""
        from lbtrace.arch import amd64_stored  # late: few functions need it

        return amd64_stored.stored(code, read, self._formatter)

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """See `lbtrace.arch.Planner.results`."""
        from lbtrace.arch import amd64_results  # late: few functions need it

        return amd64_results.results(code, returns, read)

    def _prefix(self, code: Code, keep: Collection[str], *, returns: bool) -> Iterator[Place]:
        """The places of the straight-line start, in order, that the kernel accepts."""
        delta = 0
        limit = max(min(code.limit, code.address + len(code.code)), code.address + 1)
        decoder = Decoder(64, code.code[: PREFIX_LIMIT * 15], ip=code.address)
        for _, instruction in zip(range(PREFIX_LIMIT), decoder, strict=False):
            at = instruction.ip - code.address
            if instruction.is_invalid or instruction.ip >= limit:
                return
            raw = code.code[at : at + instruction.len]
            if not is_refused(raw):
                yield Place(instruction, raw, delta)
            if instruction.flow_control != _FALLS_THROUGH:
                return
            step = self._passes(instruction, keep)
            if step is None or (step and returns):
                return
            delta += step

    def _passes(self, instruction: Instruction, keep: Collection[str]) -> int | None:
        """How far the stack pointer sinks if a probe stands behind ``instruction`` instead.

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
                if instruction.mnemonic != Mnemonic.SUB or instruction.op1_kind == OpKind.REGISTER:
                    return None
                sinks = instruction.immediate(1)
            elif name in keep:
                return None
        return sinks


def site_of(code: Code, place: Place, formatter: iced_x86.FastFormatter, reason: str) -> Site:
    """The site at ``place``."""
    instruction = place.instruction
    return Site(
        instruction.ip,
        code.offset + instruction.ip - code.address,
        place.delta,
        formatter.format(instruction),
        place.cost < 2,
        reason,
    )


def branches_of(code: Code) -> Iterator[Instruction]:
    """The instructions of ``code`` that do not simply lead to the next."""
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != _FALLS_THROUGH:
            yield instruction


def obstacle(
    code: Code,
    branches: Sequence[Instruction],
    place: Place,
    spares: Callable[[Instruction, range], bool] = lambda jump, addresses: False,
) -> str:
    """Why a probe at ``place`` could fire other than once a call, or ``""``.

    Whoever jumps back to a place at which the stack is empty would repeat a
    push there without having undone it, so jumps that cannot be followed
    (through tables, into parts split off) matter only where no push stands.
    Of an indirect jump ``spares`` may know that it leads to none of some addresses.
    """
    start, to = code.address, place.instruction.ip
    end = start + len(code.code)
    hidden = ""
    for instruction in branches:
        flow = instruction.flow_control
        if flow in _JUMPS:
            target = instruction.near_branch_target
            if start < target <= to:
                return f"the jump at +{instruction.ip - start} leads to +{target - start}"
            if not start <= target < end and instruction.ip != to:
                hidden = "a jump leaves the function and might lead back"
        elif flow in _LEAVES and (
            flow == FlowControl.INDIRECT_BRANCH or instruction.code == iced_x86.Code.INVALID
        ):
            if flow == FlowControl.INDIRECT_BRANCH and spares(
                instruction, range(start + 1, to + 1)
            ):
                continue
            hidden = "a jump whose targets are unknown might lead back"
    return "" if place.push else hidden


def is_refused(raw: bytes) -> bool:
    """Whether kernels refuse a uprobe on the instruction ``raw``, or would get it wrong.

    Refused is what ``uprobe_init_insn`` refuses, and word-sized branches
    (``66 90`` until Linux 6.2). Taken for something else are ``xchg`` of the
    form REX 90 (for a nop), and VEX and EVEX instructions by their opcode
    byte: Linux 6.18 skips ``vpcmpeqb`` (74) as if it were a ``je``.
    """
    prefixes, vector, opcode = split_prefixes(raw)
    return (
        vector
        or not opcode
        or opcode[0] in REFUSED_OPCODES
        or not REFUSED_PREFIXES.isdisjoint(prefixes)
        or (opcode[0] == 0x90 and raw not in (b"\x90", b"\xf3\x90"))
        or (_is_branch(opcode) and 0x66 in prefixes)
    )


def is_emulated_push(raw: bytes) -> bool:
    """Whether ``raw`` is a push of a register that kernels emulate (REX only as 41)."""
    return (len(raw) == 1 or (len(raw) == 2 and raw[0] == 0x41)) and 0x50 <= raw[-1] <= 0x57


def is_emulated_branch(raw: bytes) -> bool:
    """Whether ``raw`` is a one-byte nop or a relative jump or call that kernels emulate."""
    return raw == b"\x90" or (_is_branch(split_prefixes(raw)[2]) and not is_refused(raw))


def _is_branch(opcode: bytes) -> bool:
    first = opcode[0]
    return (
        first in (0xE8, 0xE9, 0xEB)
        or 0x70 <= first <= 0x7F
        or (first == 0x0F and 0x80 <= opcode[1] <= 0x8F)
    )


def split_prefixes(raw: bytes) -> tuple[bytes, bool, bytes]:
    """The legacy prefixes of an instruction, whether VEX or EVEX follows, and its opcode on.

    Layouts: Intel SDM volume 2, sections 2.1.1, 2.2.1, 2.3.5 and 2.7.1.
    """
    end = 0
    while end < len(raw) and raw[end] in LEGACY_PREFIXES:
        end += 1
    rest = raw[end:]
    if rest and 0x40 <= rest[0] <= 0x4F:
        return raw[:end], False, rest[1:]
    skip = {0xC5: 2, 0xC4: 3, 0x62: 4}.get(rest[0], 0) if rest else 0
    return raw[:end], skip > 0, rest[skip:]
