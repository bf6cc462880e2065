"""Places the probes of functions: at their entries and exits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Exit, Exits
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Function, Site
from lbtrace.plan import float_sites
from lbtrace.plan.code_context import CodeContext
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
        points: Sequence[int] = (),
    ) -> None:
        """``points`` are addresses that calls are to be around."""
        self.around = CodeContext(image, table, machine, patched=patched)
        self.sites = ProbeSites(machine, self.around)
        self._image = image
        self._table = table
        self._go = go
        self._points = sorted(points)
        self._exits: dict[int, Exits] = {}
        self._loops_to_entry: dict[int, bool] = {}

    def exits(self, function: Function) -> Exits:
        """Return where ``function`` is left."""
        if self._go and self._go.holds(function) and self._go.hides_exits(function):
            return Exits((), ("assembly that uses the register of g",))
        found = self._exits.get(function.address)
        if found is None:
            found = self.sites.exits(self.around.body(function))
            if self._go and self._go.holds(function):
                found = self._go.keeping_g(function, found)
            if self._points:
                exits = tuple(map(self._behind_points, found.exits))
                found = replace(found, exits=exits)
            self._exits[function.address] = found
        return found

    def _behind_points(self, exit: Exit) -> Exit:
        """``exit``, seen where it is if a point lies behind where it would be seen."""
        places = [exit.site.address, *(entry.site.address for entry in exit.entries)]
        behind = bisect_right(self._points, min(places))
        crossed = behind < len(self._points) and self._points[behind] <= max(places)
        return replace(exit, entries=()) if crossed else exit

    def _code(self, function: Function) -> Code:
        """The code of ``function``, with the first point in it as the limit of its probe."""
        code = self.around.code(function)
        at = bisect_left(self._points, function.address)
        first = self._points[at] if at < len(self._points) else code.limit
        return replace(code, limit=min(code.limit, first + 1))

    def loops_to_entry(self, function: Function) -> bool:
        """Return whether a jump of ``function`` leads to its first instruction. Go's do so to start
        again with a larger stack, before the probe is hit."""
        if self._go and self._go.holds(function):
            return False
        known = self._exits.get(function.address)
        if known is not None:
            return known.loops_to_entry
        found = self._loops_to_entry.get(function.address)
        if found is None:
            parts = self.around.parts(function)
            may = self.sites.may_loop_to_entry(parts) or self.around.holds_sequences(function)
            found = may and self.exits(function).loops_to_entry
            self._loops_to_entry[function.address] = found
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
        code = self._code(function)
        enter = partial(
            self.sites.entry,
            returns=returns,
            begins=lambda: (
                not (self.around.is_inside_another(function) or self.loops_to_entry(function))
            ),
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
        moved = mover.relocate(self._code(function), prototype, plain, left, entry=entry)
        if moved is None:
            return traced
        call_values, site = moved
        shown = replace(function, parameters=call_values.parameters, result=call_values.result)
        return TracedFunction(shown, call_values, prototype, site)
