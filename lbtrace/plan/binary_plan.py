"""The plan for one binary: its traced functions, their probes, and warnings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.dwarf_registers import program_counter
from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import UsageError
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Exits
from lbtrace.model import Binary, Function, Plan, Probe, Site
from lbtrace.plan import landing_pads, patterns
from lbtrace.plan.called import Called
from lbtrace.plan.function_probes import make_probes
from lbtrace.plan.noreturn_functions import never_returns
from lbtrace.plan.placement import Placer
from lbtrace.plan.return_strategy import ASKED_FOR, ReturnStrategy, StrategyChooser
from lbtrace.plan.selection import Selection
from lbtrace.plan.tail_calls import Leaving, TailCalls
from lbtrace.plan.traced_functions import ReadFloats, TracedFunction, describe, go_plan, lacks_error
from lbtrace.plan.value_selection import leads_to_code, of_image
from lbtrace.plan.warnings import AT_BREAKPOINT, name_functions
from lbtrace.system.collecting import uncollected
from lbtrace.text import some

ASKED_AGAIN = (
    "left out because of a loop to the first instruction: the condition would be evaluated"
    " in each iteration"
)
"""Why there is no condition on such functions: the program in the kernel cannot distinguish an
iteration from a call whose frame a former one left without a return."""

UNANSWERED = "left out because no returns are seen: the condition holds for none of the calls"
"""There the condition is about results or durations."""

PATCHED = "left out because relocations or the program itself changed the code in memory"
"""The kernel executes the instruction that lies in the file in the place of the changed one."""

HELD = f"left out because {AT_BREAKPOINT}"
"""See `lbtrace.targets.patched_code.find_breakpoints`."""

GOROUTINES = "is a library of Go before 1.17, whose goroutines are not distinguished"
"""They run on stacks of their own, in one thread or another, and the runtime on the threads'."""

REFUSED = "left out because the first instructions cannot be probed"
"""The kernel refuses probes there, or they would do harm."""

AMID = "left out because the symbol is amid an instruction of another function"
"""A probe there would change that instruction: see `lbtrace.plan.contradictions`."""

UNTYPED = "only panics are shown, as no debug information tells what results are errors"

UNREAD = "only exceptions and panics are shown, as the result cannot be read"

DATA = "left out because the symbol is in data"
"""A probe there would change the data."""


class TracedBinary(NamedTuple):
    """A binary and the functions selected in it: the addresses of the ``outer`` ones below which
    all others are traced, and of those ``added`` that are traced for no other reason. Some are the
    stubs by which it calls functions of others (`lbtrace.plan.called_functions`)."""

    image: Image
    functions: Sequence[Function]
    outer: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    called: Mapping[int, Called] = {}


def plan_binary(part: TracedBinary, selection: Selection) -> Plan:
    """Return the plan for one binary; it may come out empty."""
    with uncollected():
        return _BinaryPlanner(part, selection).plan()


class _BinaryPlanner:
    """Collects the functions and the probes of one binary."""

    def __init__(self, part: TracedBinary, selection: Selection) -> None:
        image = part.image
        self._part = part
        read = symbols.read_any if selection.libcalls else symbols.read
        self._table = table = image.once(read)
        self._stubs = image.once(plt.stubs)
        # Below others, the returns of these are seen, whatever is asked for.
        seen = selection.within and selection.returns == "none"
        self._chooser = StrategyChooser(image, table, "auto" if seen else selection.returns)
        self._selection = selection
        self._values = of_image(selection.values, image)
        self._machine = Machine(image.machine)
        self._go = go_plan(image, table)
        patched = selection.patched.get(image.file.identity, ())
        points = selection.points.get(image.file.identity, ())
        self._placer = Placer(image, table, self._machine, self._go, patched, points)
        self._breakpoints = selection.breakpoints.get(image.file.identity, ())
        self._starts = sorted(function.address for function in part.functions)
        self._functions: list[Function] = []
        self._probes: list[Probe] = []
        self._leaving: list[Leaving] = []
        self._left_out: dict[str, list[str]] = {
            reason: [] for reason in (DATA, AMID, REFUSED, ASKED_AGAIN, UNANSWERED, PATCHED, HELD)
        }

    def plan(self) -> Plan:
        """Return the plan."""
        part, selection, go = self._part, self._selection, self._go
        image = part.image
        read_floats = partial(
            self._placer.reading_floats,
            selection=self._values,
            exits=self._placer.exits if selection.returns != "none" else None,
            entry=selection.returns != "uretprobe",  # that stands where the function begins
        )
        traced, notes = self._describe_all(read_floats)
        notes += _indirect(self._table, image.path, selection)
        for plain in traced:
            each = read_floats(plain)
            if reason := self._add(each, has_usual_result=_returns_alike(plain, each)):
                self._left_out[reason].append(each.function.name)
        self._probes = TailCalls(
            image,
            self._leaving,
            self._table,
            self._stubs,
            self._placer,
            follows=go is None,
            avoids=self._breakpoints,
            action=self._selection.action if self._selection.aggregates else "",
        ).complete(self._probes)
        notes += go.notes() if go else ()
        if selection.aggregates and selection.within:
            self._probes = [*self._bounding_relays()]
        if selection.within or not selection.aggregates:
            self._probes += self._of_no_function()
        binary = Binary(
            image.path,
            image.build_id,
            image.machine,
            go.layout if go else None,
            names_in=image.path if _leads_to_code(self._functions) else "",
        )
        notes += self._warnings()
        plan = Plan((binary,), tuple(self._functions), tuple(self._probes), tuple(notes))
        if go is None or go.finds_goroutines or selection.aggregates or not plan.functions:
            return plan
        if any(probe.role == "closes" for probe in plan.probes):  # all calls end open without
            notes.append(f"{image.path} {GOROUTINES}: calls that wait end open")
        return replace(plan, unseen_switches="any", notes=tuple(notes))

    def _describe_all(self, read_floats: ReadFloats) -> tuple[list[TracedFunction], list[str]]:
        """The functions with their values, which those that stubs lead to have in their own files.
        Raises `UsageError` where what is asked for fits none."""
        called = self._part.called
        if not called:
            return self._describe(self._part.functions, read_floats)
        stubs = {f.address: f for f in self._part.functions if f.address in called}
        own = [f for f in self._part.functions if f.address not in called]
        describing = [partial(self._describe, own, read_floats)] if own else []
        for image in dict.fromkeys(each.image for each in called.values()):
            chosen = {at: each for at, each in called.items() if each.image is image}
            describing.append(partial(self._describe_called, image, chosen, stubs))
        traced, notes, mismatch = list[TracedFunction](), list[str](), None
        for describe_some in describing:
            try:
                found, said = describe_some()
            except UsageError as error:  # others may have what is asked for
                mismatch = error
            else:
                traced += found
                notes += said
        if mismatch and not traced:
            raise mismatch
        return sorted(traced, key=lambda each: each.function.address), notes

    def _describe_called(
        self, image: Image, called: Mapping[int, Called], stubs: Mapping[int, Function]
    ) -> tuple[list[TracedFunction], list[str]]:
        """The same of functions of a library that stubs lead to."""
        functions = {each.function.address: each.function for each in called.values()}
        library = _BinaryPlanner(TracedBinary(image, [*functions.values()]), self._selection)
        library._values = self._values  # which names what is in the program
        found, notes = library._describe([*functions.values()], lambda traced: traced)
        described = {each.function.address: each for each in found}
        traced = [
            each.at_stub(stubs[at], described[each.function.address])
            for at, each in called.items()
            if each.function.address in described
        ]
        return traced, notes

    def _describe(
        self, matching: Sequence[Function], read_floats: ReadFloats
    ) -> tuple[list[TracedFunction], list[str]]:
        """The functions with their values; what is asked of values is not about functions that
        are there only because all others are traced within them."""
        image, machine, values, go = (
            self._part.image,
            self._machine,
            self._values,
            self._go,
        )
        if values.request is not None and values.request.errors:
            throws = landing_pads.throws(self._table, self._stubs)
            throws |= go is not None and go.finds_goroutines
            values = replace(values, request=replace(values.request, throws=throws))
        added = self._part.added
        if values.request is None or not added:
            traced, notes = describe(image, machine, matching, values, go, read_floats)
            if go is not None and values.request is not None and values.request.errors:
                untyped = [f.name for f, *_ in traced if go.holds(f) and not f.typed]
                notes += name_functions(untyped, UNTYPED)
            if values.request is not None and values.request.errors:
                notes += name_functions([t.function.name for t in traced if lacks_error(t)], UNREAD)
            return traced, notes
        asked = [f for f in matching if f.address not in added]
        others = [f for f in matching if f.address in added]
        traced, notes = (
            describe(image, machine, asked, values, go, read_floats) if asked else ([], [])
        )
        more, warnings = describe(image, machine, others, replace(values, request=None), go)
        return [*traced, *more], [*notes, *warnings]

    def _add(self, traced: TracedFunction, *, has_usual_result: bool) -> str:
        """Plan a function; says why it is left out instead, if it is."""
        function, values, _, chosen = traced
        if unfit := self._why_unfit(function, values):
            return unfit
        strategy = self._chooser.choose(function)
        if strategy.kind == "sites":
            self._placer.exits(function)  # which say whether it loops to its entry, too
        loops_to_entry = self._placer.loops_to_entry(function)
        if self._selection.returns == "none" and function.address not in self._part.outer:
            strategy = ReturnStrategy("none", ASKED_FOR)
        if loops_to_entry and (
            self._selection.aggregates or (values.is_conditional and strategy.kind != "none")
        ):
            return ASKED_AGAIN
        site = chosen or self._placer.place(function, values, returns=strategy.kind == "uretprobe")
        if site is None:
            return REFUSED
        values = values.at(site.address, program_counter(self._machine.name))
        called = self._part.called.get(function.address)
        leaves = strategy.kind == "sites" and not (called and never_returns(called.name))
        exits = self._placer.exits(function) if leaves else Exits(())
        probes = [*self._probes_of(function, values, strategy, site, exits)]
        if self._breakpoints and any(p.site.address in self._breakpoints for p in probes):
            return HELD
        self._probes += probes
        self._functions.append(
            replace(
                function,
                returns=str(strategy),
                exits_hidden=bool(exits.hidden)
                or (strategy.kind == "sites" and self._has_start_amid(function)),
                loops_to_entry=loops_to_entry,
                may_jump=strategy.kind == "uretprobe" and self._jumps_away(function),
            )
        )
        self._leaving.append(Leaving(self._functions[-1], values, exits, site, has_usual_result))
        return ""

    def _has_start_amid(self, function: Function) -> bool:
        """Whether another traced function begins amid this one. Where its code runs into that, a
        call of the other seems to take the place of its own: no probe says how that ended."""
        at = bisect_right(self._starts, function.address)
        return at < len(self._starts) and self._starts[at] < function.address + function.size

    def _jumps_away(self, function: Function) -> bool:
        """Whether a function may be left by a jump, judged by its undecoded bytes."""
        code = self._part.image.code(function.address, function.size)
        leads = self._machine.jump_patterns.jumps(code)
        return any(target is None or not 0 < target < len(code) for target in leads)

    def _why_unfit(self, function: Function, values: CallValues) -> str:
        if self._placer.is_data(function):
            return DATA
        if self._placer.is_amid(function):
            return AMID
        if values.asks_return and self._chooser.choose(function).kind == "none":
            return UNANSWERED
        return PATCHED if self._placer.around.is_patched(function) else ""

    def _probes_of(
        self,
        function: Function,
        values: CallValues,
        strategy: ReturnStrategy,
        site: Site,
        exits: Exits,
    ) -> Iterator[Probe]:
        """The probes of the function that is added next."""
        probes = make_probes(len(self._functions), function, strategy, values, site, exits)
        if self._selection.aggregates:
            from lbtrace.plan import aggregation  # imported here because most plans send

            action, at_return = self._selection.action, self._selection.returns != "none"
            probes = aggregation.choose_probes(probes, action, values, at_return=at_return)
            if function.address in self._part.added:
                probes = map(aggregation.bounding, probes)
        go = self._go
        if go is None:
            return probes
        if not (go.finds_goroutines and go.holds(function)):
            return (replace(probe, foreign=True) for probe in probes)
        if go.asks_thread(function):
            return (replace(probe, assembly=True) for probe in probes)
        return probes

    def _bounding_relays(self) -> Iterator[Probe]:
        """All probes; no calls are counted by relays that return in the place of a function which
        only bounds what is, or of which calls are counted where they begin."""
        from lbtrace.plan.aggregation import bounding

        added, at_entry = self._part.added, self._selection.returns == "none"
        for probe in self._probes:
            of = self._functions[probe.function].address if probe.function >= 0 else -1
            bounds = probe.role == "tail return" and (at_entry or of in added)
            yield bounding(probe) if bounds else probe

    def _of_no_function(self) -> Iterator[Probe]:
        """Probes that report which calls were left."""
        telling = not self._selection.aggregates
        if self._go:
            if self._go.finds_goroutines:
                from lbtrace.plan.go import runtime_probes  # imported here because only Go needs it

                yield from runtime_probes.plan_probes(self._go, telling=telling)
            return
        around, sites = self._placer.around, self._placer.sites
        landed = (*self._functions, *landing_pads.tries(self._table))
        pads = {pad for function in landed for pad in around.pads(function)}
        yield from landing_pads.plan_probes(
            self._part.image, self._table, self._stubs, pads, sites, telling=telling
        )

    def _warnings(self) -> Iterator[str]:
        """Warnings about functions that are left out, and about exits that are not known."""
        for reason, names in self._left_out.items():
            yield from name_functions(names, reason)
        yield from name_functions(
            [function.name for function in self._functions if function.exits_hidden],
            "some calls end open, because some exits may be unknown",
        )


def _leads_to_code(functions: Sequence[Function]) -> bool:
    """Whether pointers to code are shown."""
    return any(map(leads_to_code, (v for f in functions for v in f.parameters))) or any(
        leads_to_code(f.result) for f in functions if f.result
    )


def _returns_alike(plain: TracedFunction, moved: TracedFunction) -> bool:
    """Whether a function's result is read where its calling convention has it."""
    alike = plain.call_values.result_fetches == moved.call_values.result_fetches
    return plain.site is None and alike


def _indirect(table: Symbols, path: str, selection: Selection) -> list[str]:
    """What to say of functions whose code the loader chooses."""
    meant = (patterns.addressed(pattern, [path])[1] for pattern in selection.named.get("func", ()))
    names = patterns.matching(table.ifuncs, list(meant))
    chosen = table.chosen(names)
    alike: dict[str, str] = {}
    for function in chosen:
        if function.name not in alike:
            public = (name for name in function.aliases if name in table.ifuncs)
            alike |= {name: function.name for name in public if not name.startswith("__")}
    left = sorted({*names} - {function.name for function in chosen})
    notes = name_functions(left, "left out because the code is chosen at run time (ifunc)")
    if alike:
        shown = some([*dict.fromkeys(alike.values())])
        notes.append(f"calls of {some([*alike])} are shown as {shown}: the code is the same")
    return notes
