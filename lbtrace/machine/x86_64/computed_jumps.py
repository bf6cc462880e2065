"""Computed jumps of x86-64 functions: followed where their targets are known, else exits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from iced_x86 import Register

from lbtrace.machine._code_scan import lib
from lbtrace.machine.x86_64.reached_code import Out, ReachedCode, WorkItem
from lbtrace.machine.x86_64.stack_depth import Stack

if TYPE_CHECKING:
    from lbtrace.machine.x86_64.switch_tables import Leads, SwitchTables

ROUNDS = 16
"""Times that jumps through tables are looked at again, as more code becomes known."""


class ComputedJumps:
    """Follows the computed jumps of ``code`` by ``follow``, with which more may become known.

    ``stacks`` is the stack at each of them; the code that reaches one adds it.
    """

    def __init__(self, code: ReachedCode, follow: Callable[[WorkItem], None]) -> None:
        self.stacks: dict[int, Stack] = {}
        self._code = code
        self._follow = follow
        self._meetings: dict[tuple[int, ...], int] = {}
        self._met: set[tuple[int, Stack]] = set()
        self._known: dict[int, set[int]] = {}
        self._within: set[tuple[int, ...]] = set()

    def follow(self) -> None:
        """Follow the jumps whose targets are computed, until no more becomes known."""
        if not self.stacks:
            return
        # Imported here because few functions need it.
        from lbtrace.machine.x86_64.switch_tables import SwitchTables

        known = self._known
        targets = SwitchTables(self._code)
        for _ in range(ROUNDS):
            found = {ip: targets.of(self._code.instructions[ip]) for ip in self.stacks}
            if not self._follow_found(found, known, targets):
                return
            targets.forget()
        for ip in self.stacks:  # there is no end to it
            self._code.hidden[ip] = f"where the jump at {ip:#x} leads is not known"

    def _follow_found(
        self,
        found: Mapping[int, Leads | None],
        known: dict[int, set[int]],
        targets: SwitchTables,
    ) -> bool:
        """Follow jumps as far as was ``found``; whether there is more than was ``known``."""
        code, grown = self._code, False
        for ip, leads in found.items():
            stack = self.stacks[ip]
            code.outs.pop(ip, None)
            code.hidden.pop(ip, None)
            if leads is None or not self._stays(leads):
                switch = targets.is_sum(code.instructions[ip])
                self._leave(ip, stack, leads.addresses if leads else (), switch)
                continue
            if leads.open and not stack.pointer:
                code.outs[ip] = Out("tail", computed=True)
            if leads.unknown:
                code.hidden[ip] = f"where the jump at {ip:#x} leads is not known"
            for table in leads.tables:
                if code.part(table.start):
                    lib.lbt_flow_table(code.native, table.start, table.stop)
            new = set(leads.addresses) - known.setdefault(ip, set())
            if new:
                known[ip] |= new
                grown = True
                code.loops_to_entry |= code.start in new
                self._meet(ip, stack, leads.addresses)
        return grown

    def _meet(self, ip: int, stack: Stack, addresses: tuple[int, ...]) -> None:
        """Follow the computed jump at ``ip``, where no other to the same places was."""
        meeting = self._meetings.setdefault(addresses, -1 - len(self._meetings))
        self._code.meet(meeting, ip)
        if (meeting, stack) not in self._met:
            self._met.add((meeting, stack))
            for target in sorted(addresses):
                self._follow(WorkItem(target, stack, meeting))

    def _stays(self, leads: Leads) -> bool:
        """Whether a jump leads to nothing but places in the function."""
        if leads.addresses not in self._within:
            code = self._code
            if not all(code.part(a) or (leads.inside and code.knows(a)) for a in leads.addresses):
                return False
            self._within.add(leads.addresses)
        return True

    def _leave(self, ip: int, stack: Stack, leads: Sequence[int], switch: bool) -> None:
        """Take a jump whose target is not in the function, or not known, for an exit."""
        code = self._code
        instruction = code.instructions[ip]
        through = instruction.is_ip_rel_memory_operand
        if len(leads) == 1 or through:  # a tail call, through a pointer or in large code
            if stack.pointer:
                code.hidden[ip] = f"the jump at {ip:#x} leaves something on the stack"
            else:
                code.outs[ip] = Out("tail")
            return
        if stack.pointer or instruction.segment_prefix == Register.DS or leads or switch:
            code.hidden[ip] = f"where the jump at {ip:#x} leads is not known"
            return
        code.outs[ip] = Out("tail", computed=True)
        labels = (label for label in code.labels() if label != code.start)
        if any(map(code.part, labels)):
            code.hidden[ip] = f"where the jump at {ip:#x} leads is not known"
