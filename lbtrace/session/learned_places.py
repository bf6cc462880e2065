"""Finds, while a trace runs, where calls return that have jumped to what is not watched.

The kernel reports a place to which such a call returns once (``bpf_src/return_places.h``). If code
is seen to lead to that instruction, a relay is attached there, and calls that jump from then on
return where they come back to their caller, whatever called them: a pointer, another file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbtrace.bpf.return_places import (
    Met,
    Place,
    begin_trial,
    decide,
    end_trial,
    forget,
    take_met,
)
from lbtrace.errors import KernelError
from lbtrace.model import Addition, Plan
from lbtrace.plan.merge import attached_since
from lbtrace.probes.sources import AFTER_ANY_CALL, AFTER_CALL
from lbtrace.session.place_proofs import Findings, PlaceProofs, Spot

if TYPE_CHECKING:
    from lbtrace.session.attached import Attached

MOST, MOST_PLAIN = 4_000, 500
"""Probes that are attached at most; where each has a link of its own, detaching one takes 0.1 s."""

MOST_RELAYS = 4
"""At one place: each costs its program's time whenever what is before it returns."""

IDLE, LEAST = 8, 100
"""How many times as often as calls that have jumped a place may be passed by others, as a pointer
leads to many functions, and how often in any case, while it is on trial: all pay for the probe."""

PERIOD, SHARE = 0.05, 10
"""Seconds between two looks, at least, and how many times as long as the last one took."""


class LearnedPlaces:
    """The relays that ``plan`` gets while it is ``attached``."""

    def __init__(self, plan: Plan, attached: Attached) -> None:
        self._attached = attached
        relays = [n for n, probe in enumerate(plan.probes) if probe.source == AFTER_ANY_CALL]
        self._relays = {plan.probes[n].relay: (n, plan.probes[n]) for n in relays}
        self._left = MOST_PLAIN if attached.mode == "plain" else MOST
        self._there: dict[tuple[int, int], int] = {}
        lands = bool(plan.within or not plan.aggregates)
        planned = {file.identity for file in attached.probed.files}
        self._proofs = PlaceProofs(attached.reach, planned, lands=lands)
        self._thread: Thread | None = None
        self._found: list[Findings] = []
        self._trials: dict[tuple[Place, Place], tuple[int, list[Any]]] = {}
        """By how a place was met, and how it is decided: the relay's number, and its links."""
        self._next_look = 0.0

    def look(self, plan: Plan) -> Iterator[Addition]:
        """Yield what is added to ``plan``, after it was attached."""
        start = time.monotonic()
        if start < self._next_look or self._left <= 0:
            return
        if self._thread is None:
            met = take_met(self._attached.traced.map("met_places"))
            if self._trials:
                met = self._end_trials(met)
            if met:
                self._thread = Thread(target=self._find, args=(met,), daemon=True)
                self._thread.start()
        elif not self._thread.is_alive():
            self._thread, found, self._found = None, self._found, []
            for findings in found:
                addition = self._attach(plan, findings)
                if addition is not None:
                    plan = plan.grown(addition)
                    yield addition
        end = time.monotonic()
        self._next_look = end + max(PERIOD, SHARE * (end - start))

    def _find(self, met: list[Met]) -> None:
        """In a thread of its own: meanwhile the ring is read."""
        self._found = self._proofs.find(met)

    def _attach(self, plan: Plan, findings: Findings) -> Addition | None:
        to = self._attached
        files = [each.identity for each in to.probed.files]
        identity = findings.file.identity
        known = identity in files
        binary = files.index(identity) if known else len(files)
        chosen = [(-1, replace(probe, binary=binary)) for probe in findings.landings]
        self._left -= len(chosen)
        refused, tried = [], dict[int, tuple[Place, Place]]()
        for spot in findings.spots:
            number, relay = self._relays[spot.met.place.relay]
            own = relay.binary == binary
            place = Place(spot.address, 0, 0, relay.relay) if own else spot.met.place
            if spot.site is None or not self._has_room(binary, spot):
                refused.append(place)
                continue
            site = replace(spot.site, sp_delta=relay.site.sp_delta)
            tried[len(chosen)] = spot.met.place, place
            chosen.append((number, replace(relay, site=site, binary=binary, source=AFTER_CALL)))
        # What is attached last is hit first: inner calls return before outer ones.
        order = sorted(range(len(chosen)), key=lambda n: chosen[n][0])
        probes = tuple(chosen[n][1] for n in order)
        after = len(plan.binaries), len(plan.functions), len(plan.probes)
        binaries = () if known else (findings.binary,)
        addition = Addition(after, binaries, probes=probes) if probes else None
        try:
            for at, n in enumerate(order, after[2]):
                if n in tried:
                    begin_trial(to.traced.map("place_passes"), at)
            if addition is not None:
                file = None if known else findings.file
                attached = to.attach(plan.grown(addition), addition, file, apart=True)
                at_trial = {at: tried[n] for at, n in enumerate(order, after[2]) if n in tried}
                self._trials |= {both: (at, attached[at]) for at, both in at_trial.items()}
            for met, _ in tried.values():  # the calls that have jumped before do not count
                forget(to.traced.map("met_places"), met)
            for place in refused:
                decide(to.traced.map("return_places"), place, seen=False)
        except KernelError:  # there is no room for more, or the kernel refuses a probe
            self._left = 0
        return addition and attached_since(addition, time.monotonic_ns())

    def _end_trials(self, met: list[Met]) -> list[Met]:
        """Keep the relays that are not passed too often, before calls wait for them; return what
        else was ``met``."""
        maps = self._attached.traced.map
        jumps = {each.place: each.jumps for each in met}
        trials, self._trials = self._trials, {}
        try:
            for (place, decided), (probe, own) in trials.items():
                passes = end_trial(maps("place_passes"), probe)
                idle = passes - jumps.get(place, 0)
                kept = idle <= max(LEAST, IDLE * jumps.get(place, 0))
                decide(maps("return_places"), decided, seen=kept)
                if not kept:
                    self._attached.links.detach(own)
        except KernelError:  # there is no room for more
            self._left = 0
        on_trial = {place for place, _ in trials}
        return [each for each in met if each.place not in on_trial]

    def _has_room(self, binary: int, spot: Spot) -> bool:
        there = self._there.get((binary, spot.address), 0)
        if self._left <= 0 or there == MOST_RELAYS:
            return False
        self._left -= 1
        self._there[binary, spot.address] = there + 1
        return True
