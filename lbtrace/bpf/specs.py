"""Turns the probes of a plan into the specs that the BPF programs read.

``struct lbt_spec`` and the meaning of a cookie: ``bpf_src/lbtrace.h``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.condition_slots import TEXT_SUBJECTS, fill_conditions
from lbtrace.bpf.fetch_slots import fill, find_chunk_layouts
from lbtrace.bpf.jump_slots import fill_jump
from lbtrace.bpf.recording import Recording, find_recording
from lbtrace.bpf.return_places import find_returning
from lbtrace.errors import UsageError, option
from lbtrace.machine import Machine
from lbtrace.model import (
    CLOSE,
    POINT,
    SENDING,
    Condition,
    Fetch,
    GoLayout,
    Grouping,
    Plan,
    Probe,
    Site,
)
from lbtrace.model.wire_limits import ACTIONS
from lbtrace.probes import CLOSING, PROBES, ROLES, hooked_pairs, kind_of_events
from lbtrace.probes.sources import measured_off_cpu

NO_SLOT = 0xFF
"""In place of the slot of a word that is known elsewhere."""

ANY_LAYOUT = sum(
    1 << layout
    for layout in (
        *(lib.LBT_SMALL_1, lib.LBT_SMALL_2, lib.LBT_SMALL_8),
        *(lib.LBT_LARGE_1, lib.LBT_LARGE_8),
    )
)
"""All bits of ``enum lbt_chunk_layout``."""

WITHIN = {"landing": lib.LBT_LANDING, "crash": lib.LBT_LANDING, "lane end": lib.LBT_LANE_END}
"""Where hits of roles that are of no function count if only those below some calls do."""


class _Pairing(Struct, frozen=True):
    """How a probe takes part in what its call's opening leaves for its closing."""

    hooked: bool
    filtered: bool
    keeps: str


class Specs:
    """The distinct specs of a plan, and the cookies of its probes.

    Where values are made of what events record, ``decoded_registers`` has the ``struct
    lbt_decoded_registers`` by probe. What specs need of the programs: ``generic``, some are not
    plain; ``selecting``, some select the registers that are recorded; ``memory``, some have code
    that reads the process's memory, as all that compare texts; ``jumps``, some are on a jump whose
    target is computed; ``chunk_layouts``, the bits of ``enum lbt_chunk_layout``; ``go``, some
    distinguish goroutines; ``stacks``, it is asked on which stack a thread runs; ``hooked``,
    uretprobes see the returns of some calls; ``loops_to_entry``, some of functions that jump back
    to their entry, whose calls are to be hooked once; ``actions``, the names of those that
    aggregate; ``times_inner``, calls are timed, and what is below them is known; ``nesting``, that
    is known of them or of calls that are shown where exceptions leave them (``shows_left``);
    ``stack_depth``, so many callers are sent with a call; ``walks_stacks``, stacks are walked, by
    tables where there are ``unwind_tables``; ``relays``, some calls jump to other functions;
    ``returning``, where these return if nothing else tells, ``learns``, more of that is found;
    ``within``, only hits below calls of some functions count; ``off_cpu``, how long threads do not
    run is measured, and where they are blocked for ``off_cpu_bound`` ns is an event of
    ``off_cpu_probe``. Where the plan ``may_grow``, they are ready for all that points may need.
    """

    def __init__(self, plan: Plan, *, learns: bool = False) -> None:
        probes, later = plan.probes, plan.may_grow
        self._kernel = Machine(plan.machine or os.uname().machine).kernel
        self._numbers: dict[object, int] = {}
        self._alike: dict[object, tuple[int, Any]] = {}
        self._specs: list[Any] = []
        self.decoded_registers: dict[int, Any] = {}
        self.generic = self.selecting = self.memory = later
        self.jumps = any(probe.site.jump for probe in probes)
        self.memory |= any(probe.site.jump.loads for probe in probes if probe.site.jump)
        self.chunk_layouts = ANY_LAYOUT if later else 0
        self.wide = later or any(len(p.fetches) > lib.LBT_VALUES for p in probes)
        self._waiting = {p.function for p in probes if p.action == "keep"}
        self._conditional = any(p.conditions or _needs_duration(p.grouping) for p in probes)
        self.filtered = later or self._conditional
        self.deferred = any(p.action == "keep" for p in probes)
        self.tells_open = self.deferred and not self._conditional
        self.related = (
            later
            or any(
                fetch.base in ("slot", "kept", "thread") or fetch.plus >= 0
                for p in probes
                for fetch in p.fetches
            )
            or any(c.other >= 0 for p in probes for c in p.conditions)
        )
        self.computing = later or any(f.operation for p in probes for f in p.fetches)
        self._set_compared({c.subject for p in probes for c in p.conditions}, later)
        self.actions = {*plan.actions} - SENDING
        self.aggregating = sum(1 << ACTIONS[name] for name in self.actions)
        self._set_keys(plan)
        self.counting = not (later or self.rooms or self.measures or plan.within) and all(
            map(_only_counts, probes)
        )
        self.keeping = any(p.keeps for p in probes)
        self.relays = any(p.relay or p.role == "tail" for p in probes)
        self.returning = find_returning(probes, learns=learns)
        self.places, self.learns_places = bool(self.returning.jumps), self.returning.learns
        self.within = bool(plan.within)
        self.off_cpu, self.off_cpu_probe, self.off_cpu_bound = measured_off_cpu(plan)
        self.stack_depth, self.walks_stacks = plan.stack_depth, plan.walks_stacks
        self.unwind_tables = self.walks_stacks and plan.unwind == "tables"
        layouts = [plan.goroutines(probe) for probe in probes]
        self.go = any(layouts)
        self.times_inner = (not plan.by and "histogram" in self.actions) and any(
            p.aggregates == lib.LBT_SLOT_DURATION for p in probes
        )
        self.shows_left = any(p.shows_left for p in probes)
        self.nesting = self.times_inner or self.shows_left
        aloof = self.actions and not (self.times_inner or self.within)
        self.stacks = not (aloof or all(layouts))
        pairs = hooked_pairs(probes, PROBES)
        self.hooked = bool(pairs)
        hooked = {*pairs, *pairs.values()}
        rounds = {n for n in pairs if plan.functions[probes[n].function].loops_to_entry}
        self.loops_to_entry = bool(rounds) and not self.within
        specs = self._find_all(probes, layouts, hooked, rounds)
        self.cookies = [number | spec << 32 for number, spec in enumerate(specs)]
        openings = {p.function: n for n, p in enumerate(probes) if p.role == "opens"}
        for number, probe in enumerate(probes):
            if probe.role in CLOSING and number not in hooked:
                self.cookies[number] |= number - openings.get(probe.function, number) << 48
        for opening, closing in pairs.items():
            cookie = opening | specs[opening] << 32 | specs[closing] << 48
            self.cookies[opening] = self.cookies[closing] = cookie

    def _find_all(
        self,
        probes: Sequence[Probe],
        layouts: Sequence[GoLayout | None],
        hooked: set[int],
        rounds: set[int],
    ) -> list[int]:
        """The number of each probe's spec."""
        specs = [0] * len(probes)
        for number in reversed(range(len(probes))):  # each knows that of the one that follows
            otherwise = specs[number + 1] + 1 if number in self.returning.jumps else 0
            probe, layout = probes[number], layouts[number]
            specs[number] = self._find(
                number, probe, number in hooked, layout, number in rounds, otherwise
            )
        return specs

    def _set_compared(self, subjects: set[str], later: bool) -> None:
        """What conditions are on."""
        self.compared_texts = later or not subjects.isdisjoint(TEXT_SUBJECTS)
        self.memory |= self.compared_texts
        self.from_program = later or "from_program" in subjects
        self.compares_off_cpu = not subjects.isdisjoint(("blocked", "runnable"))

    def _set_keys(self, plan: Plan) -> None:
        """What keys are made of, and which values are aggregated."""
        groupings = [p.grouping for p in plan.probes if p.grouping]
        self.rooms = any(
            g.by or max(g.measures, default=0) >= lib.LBT_FROM_ENTRY for g in groupings
        )
        self.by_pid = not plan.by or "pid" in plan.by
        self.key_texts = max((g.texts for g in groupings), default=0)
        self.memory |= bool(self.key_texts)
        self.measures = max((len(g.measures) for g in groupings), default=0)
        self.extremes = any(column.how in ("min", "max") for column in plan.columns)

    def grow(self, plan: Plan) -> None:
        """Add what a plan needs that has grown by points."""
        for number in range(len(self.cookies), len(plan.probes)):
            probe = plan.probes[number]
            spec = self._find(number, probe, False, plan.goroutines(probe), False)
            self.cookies.append(number | spec << 32)

    def switches(self) -> Iterator[tuple[str, int]]:
        """Yield what these specs need of the programs: the fields of ``struct lbt_config`` that are
        attributes here."""
        for name, _ in ffi.typeof("struct lbt_config").fields:
            if hasattr(self, name):
                yield name, getattr(self, name)

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, number: int) -> Any:
        """A pointer to a ``struct lbt_spec``."""
        return self._specs[number]

    def _find(
        self,
        number: int,
        probe: Probe,
        hooked: bool,
        go: GoLayout | None,
        loops_to_entry: bool,
        otherwise: int = 0,
    ) -> int:
        """As `_spec`, which takes longer, only for the first of probes that are alike."""
        site = probe.site
        alike = (
            *(probe.role, probe.source, probe.action, probe.aggregates, probe.keeps, probe.gate),
            *(probe.grouping, probe.shows_left),
            *(probe.relay, probe.joins, probe.goes_on, self._jumping(probe)),
            *(site.sp_delta, site.unless, site.only, site.jump),
            *(
                probe.fetches,
                probe.conditions,
                bool(probe.pair),
                hooked,
                loops_to_entry,
                otherwise,
                id(go),
            ),  # the plan keeps that alive
        )
        found = self._alike.get(alike)
        if found is None:
            found = self._alike[alike] = self._spec(*(probe, hooked, go, loops_to_entry, otherwise))
        spec, decoded = found
        if decoded is not None:
            self.decoded_registers[number] = decoded
        return spec

    def _spec(
        self,
        probe: Probe,
        hooked: bool,
        go: GoLayout | None,
        loops_to_entry: bool,
        otherwise: int,
    ) -> tuple[int, Any]:
        """The number of a probe's spec, and how its values are made; ``hooked``: the return of its
        call is; ``loops_to_entry``: the function jumps back to it; ``otherwise`` as there."""
        role, site, fetches = ROLES[probe.role], probe.site, probe.fetches
        jumps = self._jumping(probe)
        if probe.role == "tail":
            fetches = ()  # they are for the return
        pairing = _Pairing(
            hooked=hooked and (self._conditional or bool(probe.keeps)),
            filtered=self._conditional
            and (role.of_function or probe.relay > 0)
            and role.event != POINT
            and not probe.pair
            and not (self.actions and probe.gate and probe.action == "send"),
            keeps=probe.keeps,
        )
        kernel = self._kernel
        closes = kind_of_events(probe) == CLOSE
        registers = kernel.PLAIN_RESULTS if closes else kernel.PLAIN_ARGUMENTS
        named = role.named or bool(probe.pair)
        if PROBES[probe.source].at_return:  # it is on no instruction
            site = Site(0, 0)
        conditional = self._conditional or bool(probe.conditions)
        as_it_is = not conditional and not pairing.keeps and probe.action == "send"
        recording = (
            find_recording(fetches, registers, kernel.PT_REGS, texts=not self.wide)
            if as_it_is
            else None
        )
        key: tuple[object, ...] = (
            *(fetches, probe.conditions, probe.action),
            *(probe.grouping, probe.shows_left, closes),
        )
        if recording and not recording.texts:
            key = (recording.count, recording.selected)
        jump = (site.unless, site.only, site.jump)
        place = (role.event, site.sp_delta, jump, go and (go.g, go.goid, go.stack_high))
        within = self._where_it_counts(probe, hooked)
        ends_lane = probe.role == "crash"
        jumping = (jumps, probe.relay, otherwise)
        found = (place, pairing, within, named, loops_to_entry, key, jumping, ends_lane)
        if found not in self._numbers:
            self._numbers[found] = len(self._specs)
            if recording:
                spec = self._make_plain(recording, fetches)
            else:
                spec = self._make(fetches, probe.conditions, pairing.keeps.split())
            self._specs.append(spec)
            spec.sp_delta = site.sp_delta
            spec.action = ACTIONS[probe.action]
            if probe.grouping:
                self._set_grouping(spec, probe.grouping, waits=closes)
            spec.named, spec.ends_lane = named, ends_lane
            spec.loops_to_entry = loops_to_entry
            spec.shows_left = probe.shows_left
            spec.jumps, spec.relay, spec.otherwise = jumping
            spec.hooked = pairing.hooked
            spec.filtered = pairing.filtered
            spec.within, spec.hooks = within
            if go:
                spec.go = lib.LBT_GO_REGISTER if go.g == "register" else lib.LBT_GO_THREAD
                spec.go_goid, spec.go_stack_high = go.goid, go.stack_high
            if pairing.keeps:
                spec.keeps = [self._kernel.PT_REGS.index(r) + 1 for r in pairing.keeps.split()]
            fill_jump(spec, site, self._kernel.PT_REGS)
            if len(self._specs) > 0xFFFF:
                raise UsageError(
                    "the traced functions need more than 65,535 different kinds of probe",
                    f"trace fewer functions, or use {option('args', 0)}",
                )
        return self._numbers[found], recording and recording.decoded()

    def _jumping(self, probe: Probe) -> int:
        """An ``enum lbt_jumping``."""
        if probe.role != "tail":
            return 0
        if probe.function not in self._waiting:
            return int(lib.LBT_GOES_ON) if probe.relay else 0
        return int(lib.LBT_WAITS if probe.relay else lib.LBT_UNCOMPARED)

    def _where_it_counts(self, probe: Probe, hooked: bool) -> tuple[int, bool]:
        """An ``enum lbt_within``, and whether the return is hooked of a call that is outermost."""
        if not self.within:
            return 0, False
        if probe.goes_on:
            return int(lib.LBT_INSIDE), False
        if probe.gate:
            return int(lib.LBT_OUTER), hooked
        if probe.joins or probe.role == "tail return":
            return int(lib.LBT_JOINED), False
        inner = lib.LBT_INNER if ROLES[probe.role].of_function else lib.LBT_ANYWHERE
        if probe.pair:
            inner = lib.LBT_INSIDE
        return int(WITHIN.get(probe.role, inner)), False

    def _set_grouping(self, spec: Any, grouping: Grouping, *, waits: bool) -> None:
        spec.by = [slot if slot >= 0 else NO_SLOT for slot in grouping.slots] + [NO_SLOT] * (
            lib.LBT_KEY_WORDS - len(grouping.slots)
        )
        for number, slot in enumerate(grouping.measures):
            spec.measures[number] = slot
        spec.unsigned_measures = sum(1 << n for n, each in enumerate(grouping.unsigned) if each)
        spec.has_room = self.rooms and waits

    def _make_plain(self, recording: Recording, fetches: tuple[Fetch, ...]) -> Any:
        spec = ffi.new("struct lbt_spec *")
        spec.plain = True
        spec.fetches = recording.count
        spec.selected = len(recording.selected)
        self.selecting |= bool(recording.selected)
        for number, register in enumerate(recording.selected):
            spec.selection[number] = self._kernel.PT_REGS.index(register)
        if recording.texts:
            self.memory = True
            self._set_fetches(spec, fetches, ())
        return spec

    def _make(
        self,
        fetches: tuple[Fetch, ...],
        conditions: tuple[Condition, ...],
        keeps: Sequence[str],
    ) -> Any:
        spec = ffi.new("struct lbt_spec *")
        spec.fetches = len(fetches)
        spec.more = max(0, len(fetches) - lib.LBT_VALUES)
        self._set_fetches(spec, fetches, keeps)
        fill_conditions(spec, conditions)
        self.generic = True
        self.memory |= any(fetch.derefs or fetch.read != "value" for fetch in fetches)
        return spec

    def _set_fetches(self, spec: Any, fetches: tuple[Fetch, ...], keeps: Sequence[str]) -> None:
        texts = [fetch for fetch in fetches if fetch.read in ("string", "bytes")]
        if texts:
            spec.chunk_layout, spec.short_layout = find_chunk_layouts(texts)
            self.chunk_layouts |= 1 << spec.chunk_layout | 1 << spec.short_layout
        for slot, fetch in zip(spec.fetch, fetches, strict=False):
            fill(slot, fetch, self._kernel.PT_REGS, keeps)
        slots = [n for n, f in enumerate(fetches) if f.read in ("string", "bytes")]
        ffi.buffer(spec.text_slot)[:] = bytes(slots).ljust(lib.LBT_CHUNKS, b"\xff")
        spec.text_slots = sum(1 << n for n in slots)


def _only_counts(probe: Probe) -> bool:
    """Whether a hit is counted, and nothing else is asked of it."""
    asked = probe.fetches or probe.conditions or probe.keeps or probe.pair
    goes_on = probe.relay or probe.joins or probe.goes_on
    return probe.action == "count" and not (asked or goes_on or probe.role in CLOSING)


def _needs_duration(grouping: Grouping | None) -> bool:
    """Whether it takes how long a call takes: then the entry leaves its time."""
    return grouping is not None and lib.LBT_SLOT_DURATION in (*grouping.slots, *grouping.measures)
