"""Where the epilogue of an x86-64 return is entered: probes in the place of one on ``ret``.

Kernels single-step ``ret``. The code before it mostly just restores registers, and is reached by
jumps, which they emulate. A probe on each of them is hit once on every way to the return; where a
conditional one may lead elsewhere, the flags decide. From there on nothing is called, nothing
faults, and nothing but the return follows: the call is over when the probe is hit. Where a way
has no such jump, its first instruction that just restores is probed, and single-stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from iced_x86 import Instruction
from msgspec import Struct

from lbtrace.machine.code import EpilogueEntry
from lbtrace.machine.x86_64.branches import conditions, tests_register
from lbtrace.machine.x86_64.kernel_rules import (
    is_emulated_branch,
    is_long_nop,
    is_refused,
)
from lbtrace.machine.x86_64.reached_code import ReachedCode
from lbtrace.machine.x86_64.restores import BRANCH, JUMP, PLAIN, Restored, Steps
from lbtrace.model import Site

ENTRIES = 8
"""Entries of one epilogue, at most."""

CONDITIONAL = 4
"""Conditional entries of all epilogues of a function, at most: a call may come by each, and three
emulated instructions cost about as much as one that is single-stepped."""

LENGTH = 48
"""Instructions of an epilogue, at most."""

LOOKED_AT = 2000
"""Instructions that are examined before a jump counts as part of a loop."""

_NOP = b"\x90"


class _Way(Struct, frozen=True):
    """A hit of the instruction at ``address`` leads to the return: always (None), or only if it
    jumps, or does not."""

    address: int
    restored: Restored
    jumps: bool | None = None


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
        self._pads = frozenset(pads)
        self._steps = steps
        self._shown = shown
        self._used: set[int] = set()
        self._conditional = 0
        self._whole = not (
            flow.hidden or flow.loses_stack or any(out.computed for out in flow.outs.values())
        )

    def entries(self, ret: Instruction) -> tuple[EpilogueEntry, ...]:
        """Return the entries of the epilogue of ``ret``, of which each call that returns there
        passes one; none where probes on them cost as much as one on ``ret``."""
        ways = self._ways(ret.ip, self._steps.last, 0) if self._whole else None
        ways = _merge(ways) if ways else None
        if not ways or len(ways) > ENTRIES:
            return ()
        conditional = sum(way.jumps is not None for way in ways)
        if self._conditional + conditional > CONDITIONAL:
            return ()
        found = [self._entry(way, ret) for way in ways]
        entries = tuple(entry for entry in found if entry is not None)
        if len(entries) < len(found) or not any(entry.site.emulated for entry in entries):
            return ()
        self._used.update(way.address for way in ways)
        self._conditional += conditional
        return entries

    def _ways(self, ip: int, restored: Restored, length: int) -> list[_Way] | None:
        """The ways to the instruction at ``ip``, from which on nothing happens but what is
        ``restored``; None where some way has no place for a probe."""
        flow = self._flow
        if self._is_far(ip, length):
            return None
        jumps = [self._way(source, restored, jumps=True) for source in flow.sources.get(ip, ())]
        found = [way for way in jumps if way is not None]
        if len(found) < len(jumps):
            return None
        last = flow.before.get(ip)
        if last is None:
            return found
        line = flow.straight_line(last)
        ways = self._along(line[: line.index(last) + 1], ip, restored, length)
        return None if ways is None else [*found, *ways]

    def _is_far(self, ip: int, length: int) -> bool:
        """Whether an epilogue does not reach beyond the instruction at ``ip``."""
        return ip == self._flow.start or ip in self._pads or length > LENGTH

    def _along(
        self, line: list[int], ip: int, restored: Restored, length: int
    ) -> list[_Way] | None:
        """The same of the instruction at ``ip`` by the straight ``line`` that leads to it."""
        code, _ = self._flow.raw_of(line[0], ip - line[0])
        entered: list[_Way] | None = None
        for last in reversed(line):
            if entered is not None and self._is_far(ip, length):
                return entered
            raw = code[last - line[0] : ip - line[0]]
            if raw == _NOP or self._steps.kind(raw) != PLAIN:
                way = self._way(last, restored, jumps=False)
                return entered if way is None else [way]
            earlier = self._steps.before(restored, raw)
            if earlier is None:
                return entered
            restored, ip, length = earlier, last, length + 1
            entered = [_Way(last, earlier)]
        ways = self._ways(ip, restored, length)
        return entered if ways is None else ways

    def _way(self, source: int, restored: Restored, *, jumps: bool) -> _Way | None:
        """The way by the jump at ``source``, which is taken or not, or by a nop; None if no probe
        there is hit just once on this way."""
        if source < 0 or source in self._pads or source in self._used:
            return None
        kind = self._steps.kind(self._flow.raw(source)[0])
        if kind in (PLAIN, JUMP):
            return _Way(source, restored)
        if kind != BRANCH or self._flow.is_in_loop(source, LOOKED_AT):
            return None
        return _Way(source, restored, jumps)

    def _entry(self, way: _Way, ret: Instruction) -> EpilogueEntry | None:
        """A probe there; None where it cannot be placed."""
        flow = self._flow
        instruction = flow.instructions[way.address]
        raw, offset = flow.raw(way.address)
        depth = way.restored.depth(flow.stack_at(way.address))
        if depth is None or is_refused(raw) or tests_register(instruction):
            return None
        if not flow.is_certain(instruction):
            return None
        if is_long_nop(instruction):
            return None
        reason = f"leads to the ret at {ret.ip:#x}"
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
        found[way.address] = _Way(way.address, both)
    return [*found.values()]
