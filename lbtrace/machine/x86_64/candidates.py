"""Instructions at which a probe could be placed, and whether it would fire once per call
there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.kernel_rules import LONG_NOPS, is_emulated_branch, is_emulated_push
from lbtrace.model import Site

_FALLS_THROUGH = FlowControl.NEXT
_LEAVES = frozenset({FlowControl.INDIRECT_BRANCH, FlowControl.EXCEPTION})
_JUMPS = frozenset(
    {
        FlowControl.CONDITIONAL_BRANCH,
        FlowControl.UNCONDITIONAL_BRANCH,
        FlowControl.XBEGIN_XABORT_XEND,
    }
)


class Candidate:
    """An instruction of a function's straight-line start at which a probe could be placed.
    ``cost``: 0 where all kernels are quick, 1 where some are, 2 where they single-step it."""

    __slots__ = ("cost", "delta", "instruction", "push", "raw")

    def __init__(self, instruction: Instruction, raw: bytes, delta: int) -> None:
        self.instruction = instruction
        self.raw = raw
        self.delta = delta
        self.push = is_emulated_push(raw)
        if self.push or is_emulated_branch(raw):
            self.cost = 0
        else:
            self.cost = 1 if raw in LONG_NOPS else 2


def site_of(code: Code, place: Candidate, formatter: iced_x86.FastFormatter, reason: str) -> Site:
    """Return the site at ``place``."""
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
    """Yield the instructions of ``code`` that do not simply lead to the next."""
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != _FALLS_THROUGH:
            yield instruction


def why_unsafe(
    code: Code,
    branches: Sequence[Instruction],
    place: Candidate,
    never_targets: Callable[[Instruction, range], bool] = lambda jump, addresses: False,
    never_back: Callable[[int], bool] = lambda target: False,
) -> str:
    """Return why a probe at ``place`` could fire other than once a call, or ``""``.

    A jump back to a place at which the stack is empty would repeat a push there without having
    undone it, so jumps that cannot be followed (through tables, into parts split off) matter only
    where there is no push. Of an indirect jump ``never_targets`` may know that it leads to none of
    some addresses, of the target of another one ``never_back`` that nothing there leads back.
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
            outside = not start <= target < end and instruction.ip != to
            if outside and not never_back(target):
                hidden = "a jump leaves the function and might lead back"
        elif flow in _LEAVES and (flow == FlowControl.INDIRECT_BRANCH or instruction.is_invalid):
            if flow == FlowControl.INDIRECT_BRANCH and never_targets(
                instruction, range(start + 1, to + 1)
            ):
                continue
            hidden = "a jump whose targets are unknown might lead back"
    return "" if place.push else hidden
