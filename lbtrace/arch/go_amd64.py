"""Where probes stand in x86-64 functions compiled by Go.

Most Go functions begin with a look at the end of the stack. If too little is
left they call ``runtime.morestack``, which moves the stack and begins the
function anew. So a probe that is to fire once a call stands behind the look,
which is known by its conditional jump to a block that calls morestack
(``cmd/internal/obj/x86``, ``stacksplit``).

A return address on a Go stack must never be replaced, as the runtime reads
and copies stacks: returns are taken at each ``ret``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind

from lbtrace.arch import Code, Exit, ExitKind, Exits
from lbtrace.arch.amd64_sites import Amd64Planner, is_emulated_branch, is_refused
from lbtrace.arch.go_abi import OnStack, Told
from lbtrace.model import Site

CHECK_LIMIT = 12
"""Instructions within which the look at the stack ends: three at most, twice
for large frames, and room for race and coverage builds."""

SPILL_LIMIT = 40
"""Instructions before the call of morestack: each argument register is saved."""

FLAGS = {Mnemonic.JBE: 0x41, Mnemonic.JB: 0x01}
"""Flags of EFLAGS with which the jumps to morestack are taken: CF (1), ZF (64)."""

_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})


class GoPlanner:
    """Chooses places. ``morestack`` are the addresses of ``runtime.morestack*``."""

    def __init__(self, morestack: Collection[int]) -> None:
        self._morestack = frozenset(morestack)
        self._planner = Amd64Planner()
        self._formatter = iced_x86.FastFormatter()

    def entry(self, code: Code, keep: Collection[str]) -> Site | None:
        """Where a probe fires once a call, with the registers ``keep`` as at entry.

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

    def told(self, code: Code, integers: Sequence[str]) -> Told:
        """What the code tells of arguments and results in registers."""
        from lbtrace.arch.go_amd64_untold import Reader  # late: most programs tell themselves

        reader = Reader()
        _, jump = self._check(code)
        results = reader.written_last(code, integers)
        if jump is None:
            return Told(None, reader.read_first(code, integers), results)
        return Told(reader.spilled(code, jump.near_branch_target), 0, results)

    def finds_g(self, code: Code) -> bool:
        """Whether the function loads the goroutine's register (r14) first of all, which holds
        it already wherever arguments are in registers."""
        first = next(iter(Decoder(64, code.code, ip=code.address)), None)
        return (
            first is not None
            and first.mnemonic == Mnemonic.MOV
            and first.op0_kind == OpKind.REGISTER
            and first.op0_register == iced_x86.Register.R14
        )

    def on_stack(self, code: Code, words: int) -> OnStack | None:
        """What the code tells of ``words`` of arguments and results on the stack."""
        from lbtrace.arch import go_amd64_stack  # late: as above

        return go_amd64_stack.told(code, words)

    def _check(self, code: Code) -> tuple[int, Instruction | None]:
        """The address behind the look at the stack, and the jump before it; the
        function's own where it has none."""
        behind, jump = code.address, None
        decoder = Decoder(64, code.code, ip=code.address)
        for _, instruction in zip(range(CHECK_LIMIT), decoder, strict=False):
            flow = instruction.flow_control
            if flow == FlowControl.CONDITIONAL_BRANCH:
                if not self._grows(code, instruction.near_branch_target):
                    break
                behind, jump = instruction.next_ip, instruction
            elif flow != FlowControl.NEXT:
                break
        return int(behind), jump

    def exits(self, code: Code) -> Exits:
        """Each ``ret``, and each jump to another function, in order.

        Go puts nothing but code into a function, and compiles ``switch`` to
        jumps through tables that stay inside.
        """
        found: list[Exit] = []
        hidden: list[str] = []
        end = code.address + len(code.code)
        for instruction in Decoder(64, code.code, ip=code.address):
            flow = instruction.flow_control
            kind: ExitKind = "return"
            if flow in _JUMPS:
                target = instruction.near_branch_target
                if code.address <= target < end:
                    continue
                kind = "tail"
            elif flow != FlowControl.RETURN:
                continue
            into = instruction.ip - code.address
            raw = code.code[into : into + instruction.len]
            if is_refused(raw) or flow == FlowControl.CONDITIONAL_BRANCH:
                hidden.append(f"the exit at {instruction.ip:#x} cannot be probed")
                continue
            shown = self._formatter.format(instruction)
            site = Site(instruction.ip, code.offset + into, 0, shown, is_emulated_branch(raw))
            found.append(Exit(kind, site))
        return Exits(tuple(found), tuple(hidden))

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


def writes(code: Code, register: str) -> bool:
    """Whether the function changes ``register`` (``r14``) itself."""
    info = iced_x86.InstructionInfoFactory()
    wanted = getattr(iced_x86.Register, register.upper())
    for instruction in Decoder(64, code.code, ip=code.address):
        for used in info.info(instruction).used_registers():
            if iced_x86.RegisterExt.full_register(used.register) == wanted and used.access in (
                iced_x86.OpAccess.WRITE,
                iced_x86.OpAccess.READ_WRITE,
                iced_x86.OpAccess.COND_WRITE,
                iced_x86.OpAccess.READ_COND_WRITE,
            ):
                return True
    return False


def _is_target(code: Code, address: int) -> bool:
    """Whether a jump within the function leads to ``address``."""
    return any(target == address for target in _targets(code))


def _targets(code: Code) -> Iterator[int]:
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control in _JUMPS and instruction.mnemonic != Mnemonic.JMPE:
            yield instruction.near_branch_target
