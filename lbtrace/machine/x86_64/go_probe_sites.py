"""Chooses the sites of probes in x86-64 functions compiled by Go.

Most Go functions begin with a check of the end of the stack. If too little is left they call
``runtime.morestack``, which moves the stack and starts the function again. So a probe that is to
fire once per call is placed after the check, which is recognised by its conditional jump to a block
that calls morestack (``cmd/internal/obj/x86``, ``stacksplit``).

A return address on a Go stack must never be replaced, as the runtime reads
and copies stacks: returns are seen at each ``ret``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind

from lbtrace.machine.code import (
    Code,
    EpilogueEntry,
    InferredRegisters,
    Origin,
)
from lbtrace.machine.interface import GoSitePlanner
from lbtrace.machine.x86_64.first_writes import all_writes
from lbtrace.machine.x86_64.kernel_rules import is_emulated_branch
from lbtrace.machine.x86_64.probe_sites import Planner
from lbtrace.model import Site

CHECK_LIMIT = 12
"""Instructions within which the stack check ends: three at most, twice for large frames, and
room for race and coverage builds."""

SPILL_LIMIT = 40
"""Instructions before the call of morestack: each argument register is saved."""

FLAGS = {Mnemonic.JBE: 0x41, Mnemonic.JB: 0x01}
"""Flags of EFLAGS with which the jumps to morestack are taken: CF (1), ZF (64)."""

G = "r14"
"""The register of the goroutine, where arguments are in registers (Go internal ABI specification,
amd64)."""

_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})


class GoPlanner(GoSitePlanner):
    """Chooses places. ``morestack`` are the addresses of ``runtime.morestack*``."""

    REGISTERS_SINCE = (1, 17)
    G = G
    KEEPS_G = False

    def __init__(self, morestack: Collection[int]) -> None:
        self._morestack = frozenset(morestack)
        self._planner = Planner()
        self._formatter = iced_x86.FastFormatter()

    def entry(self, code: Code, keep: Collection[str]) -> Site | None:
        """Return where a probe fires once a call, with the registers ``keep`` as at entry.

        None where there is no such place: the kernel refuses it, or a loop
        leads back to it.
        """
        checked, jump = self._check(code)
        into = checked - code.address
        body = Code(code.code[into:], checked, code.offset + into, code.limit)
        site = self._planner.choose(body, keep, returns=False)
        if (site is None or not site.emulated) and jump is not None and jump.mnemonic in FLAGS:
            # The kernel emulates the jump itself, which is hit again after the
            # stack has grown, then without jumping.
            at = jump.ip - code.address
            if is_emulated_branch(code.code[at : at + jump.len]):
                shown = self._formatter.format(jump)
                why = "counts where it does not jump"
                unless = FLAGS[jump.mnemonic]
                return Site(jump.ip, code.offset + at, 0, shown, True, why, unless)
        if site is None or (site.address == checked and _is_target(code, checked)):
            return None
        return site

    def changes_g(self, code: Code) -> bool:
        """Return whether the function writes r14, whatever it has there when it returns."""
        return G in all_writes(code.code, code.address)

    def finds_g_after(self, entry: EpilogueEntry) -> bool:
        """Return whether r14 is written between ``entry`` and the return, as by what calls
        assembly in the convention without registers: the assembly may leave anything there."""
        unchanged = Origin(G)
        return entry.origins.get(G, unchanged) != unchanged

    def infer_registers(self, code: Code, integers: Sequence[str]) -> InferredRegisters:
        """See `lbtrace.machine.GoSitePlanner.infer_registers`."""
        # Imported here because most programs have debug information.
        from lbtrace.machine.x86_64.go_registers import GoRegisterReader

        reader = GoRegisterReader()
        _, jump = self._check(code)
        results = reader.written_last(code, integers)
        if jump is None:
            return InferredRegisters(None, reader.read_first(code, integers), results)
        return InferredRegisters(reader.spilled(code, jump.near_branch_target), 0, results)

    def kept(self, code: Code) -> frozenset[str] | None:
        """See `lbtrace.machine.GoSitePlanner.kept`."""
        from lbtrace.machine.x86_64.go_registers import GoRegisterReader  # imported here as above

        _, jump = self._check(code)
        if jump is None:
            return None
        return frozenset(GoRegisterReader().spilled(code, jump.near_branch_target).values())

    def finds_g(self, code: Code) -> bool:
        """Return whether the function loads the goroutine's register (r14) first of all, which
        holds it already wherever arguments are in registers."""
        first = next(iter(Decoder(64, code.code, ip=code.address)), None)
        return (
            first is not None
            and first.mnemonic == Mnemonic.MOV
            and first.op0_kind == OpKind.REGISTER
            and first.op0_register == iced_x86.Register.R14
        )

    def _check(self, code: Code) -> tuple[int, Instruction | None]:
        """The address after the stack check, and the jump before it; the function's own where it
        has none."""
        following, jump = code.address, None
        decoder = Decoder(64, code.code, ip=code.address)
        for _, instruction in zip(range(CHECK_LIMIT), decoder, strict=False):
            flow = instruction.flow_control
            if flow == FlowControl.CONDITIONAL_BRANCH:
                if not self._grows(code, instruction.near_branch_target):
                    break
                following, jump = instruction.next_ip, instruction
            elif flow != FlowControl.NEXT:
                break
        return int(following), jump

    def _grows(self, code: Code, target: int) -> bool:
        """Whether the block at ``target`` calls morestack."""
        into = target - code.address
        if not 0 <= into < len(code.code):
            return False
        block = Decoder(64, code.code[into : into + SPILL_LIMIT * 15], ip=target)
        for _, instruction in zip(range(SPILL_LIMIT), block, strict=False):
            flow = instruction.flow_control
            if flow == FlowControl.CALL:
                return instruction.near_branch_target in self._morestack
            if flow != FlowControl.NEXT:
                return False
        return False


def _is_target(code: Code, address: int) -> bool:
    """Whether a jump within the function leads to ``address``."""
    return any(target == address for target in _targets(code))


def _targets(code: Code) -> Iterator[int]:
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control in _JUMPS and instruction.mnemonic != Mnemonic.JMPE:
            yield instruction.near_branch_target
