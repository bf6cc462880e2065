"""Where the epilogue of an x86-64 return is entered: probes in the place of one on ``ret``.

Kernels single-step ``ret``. The code before it mostly just restores registers, and is reached by
jumps, which they emulate. A probe on each of them is hit once on every way to the return; where a
conditional one may lead elsewhere, the flags decide. From there on nothing is called, nothing
faults, and nothing but the return follows: the call is over when the probe is hit. Where a way
has no such jump, its first instruction that just restores is probed, and single-stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from iced_x86 import Instruction
from msgspec import Struct

from lbtrace.machine._code_scan import lib
from lbtrace.machine.code import EpilogueEntry
from lbtrace.machine.x86_64.branches import conditions, tests_register
from lbtrace.machine.x86_64.kernel_rules import (
    is_emulated_branch,
    is_long_nop,
    is_refused,
)
from lbtrace.machine.x86_64.reached_code import ReachedCode, depth_of
from lbtrace.machine.x86_64.restores import Restored, Steps
from lbtrace.machine.x86_64.stack_depth import Stack
from lbtrace.model import Site

ENTRIES = 8
"""Entries of one epilogue, at most."""

CONDITIONAL = 4
"""Conditional entries of all epilogues of a function, at most: a call may come by each, and three
emulated instructions cost about as much as one that is single-stepped."""


class _Way(Struct, frozen=True):
    """A hit of the instruction at ``address`` leads to the return: always (None), or only if it
    jumps, or does not."""

    address: int
    length: int
    restored: Restored
    stack: Stack | None
    jumps: bool | None


class Epilogues:
    """Finds where the epilogues of the returns of one function are entered. ``steps`` are those of
    all functions; ``shown`` says how an instruction is written."""

    def __init__(
        self,
        flow: ReachedCode,
        pads: Collection[int],
        steps: Steps,
        shown: Callable[[Instruction], str],
    ) -> None:
        self._flow = flow
        self._steps = steps
        self._shown = shown
        self._conditional = 0
        self._whole = not (
            flow.hidden or flow.loses_stack or any(out.computed for out in flow.outs.values())
        )
        for pad in pads if self._whole else ():
            if flow.part(pad) is not None:
                lib.lbt_flow_land(flow.native, pad)

    def entries(self, ret: int) -> tuple[EpilogueEntry, ...]:
        """Return the entries of the epilogue of the return at ``ret``, of which each call that
        returns there passes one; none where probes on them cost as much as one on it."""
        ways = _merge(self._ways(ret)) if self._whole else None
        if not ways or len(ways) > ENTRIES:
            return ()
        conditional = sum(way.jumps is not None for way in ways)
        if self._conditional + conditional > CONDITIONAL:
            return ()
        found = [self._entry(way, ret) for way in ways]
        entries = tuple(entry for entry in found if entry is not None)
        if len(entries) < len(found) or not any(entry.site.emulated for entry in entries):
            return ()
        for way in ways:
            lib.lbt_flow_use(self._flow.native, way.address)
        self._conditional += conditional
        return entries

    def _ways(self, ret: int) -> list[_Way]:
        """The ways to the return; none where some way has no place for a probe."""
        flow, steps = self._flow, self._steps
        ways = steps.ways
        while (count := lib.lbt_flow_ways(flow.native, steps.native, ret, ways)) < 0:
            steps.learn(ways[0].restored, flow.raw_of(ways[0].address, ways[0].length)[0])
        return [self._way(ways[number]) for number in range(count)]

    def _way(self, way: Any) -> _Way:
        stack = Stack(depth_of(way.pointer), depth_of(way.base)) if way.has_stack else None
        jumps = None if way.leads == lib.LBT_ALWAYS else way.leads == lib.LBT_JUMPS
        return _Way(way.address, way.length, self._steps.restored[way.restored], stack, jumps)

    def _entry(self, way: _Way, ret: int) -> EpilogueEntry | None:
        """A probe there; None where it cannot be placed."""
        flow = self._flow
        raw, offset = flow.raw_of(way.address, way.length)
        depth = way.restored.depth(way.stack)
        if depth is None or is_refused(raw) or not flow.is_certain(way.address, way.length):
            return None
        instruction = flow.instructions[way.address]
        if is_long_nop(instruction) or tests_register(instruction):
            return None
        reason = f"leads to the ret at {ret:#x}"
        unless = only = 0
        if way.jumps is not None:
            unless, only = conditions(instruction)
            if not way.jumps:
                unless, only = only, unless
            reason += ", counts where it jumps" if way.jumps else ", counts where it does not jump"
        emulated = is_emulated_branch(raw)
        shown = self._shown(instruction)
        site = Site(way.address, offset, depth, shown, emulated, reason, unless, only)
        return EpilogueEntry(site, way.restored.origins, way.restored.stores)


def _merge(ways: list[_Way]) -> list[_Way] | None:
    """The same ways; a conditional jump that leads to the return either way is one. None where
    what happens after it differs."""
    found: dict[int, _Way] = {}
    for way in ways:
        known = found.get(way.address)
        if known is None:
            found[way.address] = way
            continue
        both = known.restored.agreed(way.restored)
        if both is None or known.jumps is None or known.jumps == way.jumps:
            return None
        found[way.address] = _Way(way.address, way.length, both, way.stack, None)
    return [*found.values()]
