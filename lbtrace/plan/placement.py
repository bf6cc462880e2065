"""Places the probes of functions: at their entries and exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Exits
from lbtrace.machine.long_nops import AskNop, avoid_nops
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Function, Site
from lbtrace.plan import float_sites, stack_switches
from lbtrace.plan.code_context import Surroundings
from lbtrace.plan.traced_functions import TracedFunction
from lbtrace.plan.value_selection import ValueSelection

if TYPE_CHECKING:
    from lbtrace.plan.go.planner import GoPlan


class Placer:
    """Finds the places of probes of the functions of one image."""

    def __init__(
        self,
        image: Image,
        table: Symbols,
        machine: Machine,
        go: GoPlan | None = None,
        patched: Sequence[int] = (),
        ask_nop: AskNop = avoid_nops,
    ) -> None:
        self.around = Surroundings(image, table, machine, patched=patched)
        self.sites = ProbeSites(machine, self.around, ask_nop)
        self._image = image
        self._table = table
        self._go = go
        self._exits: dict[int, Exits] = {}
        self._restarts: dict[int, bool] = {}

    def exits(self, function: Function) -> Exits:
        """Return where ``function`` is left."""
        if self._go and self._go.holds(function) and self._go.hides_exits(function):
            return Exits((), ("assembly that uses the register of g",))
        found = self._exits.get(function.address)
        if found is None:
            found = self.sites.exits(self.around.body(function))
            if self._go and self._go.holds(function):
                found = self._go.keeping_g(function, found)
            elif any(exit.site.jump for exit in found.exits):
                found = self._without_switches(found)
            self._exits[function.address] = found
        return found

    def _without_switches(self, found: Exits) -> Exits:
        """``found`` without jumps to what goes on on another stack, if it is left by nothing else:
        it then goes on where its caller there had called it, which is no jump to a function, and
        how far its stack pointer lies below that is not known."""
        jumps = self._switching_jumps
        if not all(exit.site.address in jumps for exit in found.exits):
            return found
        hidden = [f"the jump at {e.site.address:#x} leads to another stack" for e in found.exits]
        return replace(found, exits=(), hidden=(*found.hidden, *hidden))

    @cached_property
    def _switching_jumps(self) -> frozenset[int]:
        found = stack_switches.switches(self._image, self._table, self.sites)
        return frozenset(switch.jump for switch in found)

    def restarts(self, function: Function) -> bool:
        """Return whether a jump of ``function`` leads to its first instruction. Go's do so to start
        again with a larger stack, before the probe is hit."""
        if self._go and self._go.holds(function):
            return False
        known = self._exits.get(function.address)
        if known is not None:
            return known.restarts
        found = self._restarts.get(function.address)
        if found is None:
            parts = self.around.parts(function)
            may = self.sites.may_restart(parts) or self.around.holds_sequences(function)
            found = may and self.exits(function).restarts
            self._restarts[function.address] = found
        return found

    def is_amid(self, function: Function) -> bool:
        """Return whether ``function`` begins, by its symbol, amid an instruction of another one."""
        ours = self._go is not None and self._go.holds(function)
        return not ours and self.around.is_amid(function.address)

    def is_data(self, function: Function) -> bool:
        """Return whether ``function`` begins, by its symbol, in data."""
        return self.around.is_data(function.address)

    def is_sound(self, function: Function) -> bool:
        """Return whether a function's code is what the file says, so that probes may be in it."""
        around = self.around
        return not (self.is_data(function) or self.is_amid(function) or around.is_patched(function))

    def place(self, function: Function, call_values: CallValues, *, returns: bool) -> Site | None:
        """Return the site of the probe of ``function``; None where the kernel allows none."""
        if self._go and self._go.holds(function):
            return self._go.entry(function, call_values)
        if self.is_data(function) or self.is_amid(function):
            return None
        begins = not (self.around.is_inside_another(function) or self.restarts(function))
        code = self.around.code(function)
        enter = partial(
            self.sites.entry,
            returns=returns,
            begins=begins,
            nops=self.around.is_described(function),
            never_back=self.around.begins_another,
        )
        site = enter(code, call_values.registers)
        if site is not None and site.address != function.address:
            jumps = self.around.jumps_into(function, site.address)
            if any(map(self.sites.is_instruction, jumps)):
                code = replace(code, limit=function.address + 1)
                site = enter(code, call_values.registers)
        return site

    def reading_floats(
        self,
        traced: TracedFunction,
        selection: ValueSelection,
        exits: Callable[[Function], Exits] | None = None,
        *,
        entry: bool = True,
    ) -> TracedFunction:
        """Return ``traced`` with its floats read where they can be
        (`FloatSitePlanner.relocate`)."""
        function, plain, prototype, _ = traced
        if prototype is None or not float_sites.are_unread(plain):
            return traced
        mover = float_sites.FloatSitePlanner(self.sites.machine, self.around.read, selection)
        left = partial(exits, function) if exits else None
        moved = mover.relocate(self.around.code(function), prototype, plain, left, entry=entry)
        if moved is None:
            return traced
        call_values, site = moved
        shown = replace(function, parameters=call_values.parameters, result=call_values.result)
        return TracedFunction(shown, call_values, prototype, site)
