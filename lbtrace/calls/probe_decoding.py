"""Decodes the events of each probe of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from lbtrace.calls import decoders
from lbtrace.calls.call_stack import Stack
from lbtrace.calls.payload import Blob, Context, Names
from lbtrace.calls.probe_pairs import ProbePairs
from lbtrace.calls.symbolizer import Namer
from lbtrace.model import Arguments, Call, Event, Function, GoLayout, Plan, Probe
from lbtrace.probes import LANDINGS, PROBES, STACK_ROLES

Act: TypeAlias = Callable[[Stack, "ProbeDecoder", Event, Blob], None]
"""What a matcher does with an event of a probe, on its stack."""


def pass_over(stack: Stack, decoding: ProbeDecoder, event: Event, blob: Blob) -> None:
    """Do nothing: `Lanes` handles the stacks, and roles that this version does not know are
    ignored."""


class ProbeDecoders(dict[int, "ProbeDecoder"]):
    """The decoders of a plan's probes, by their numbers: each is made when it is first asked for,
    because few of ten thousand functions are called. ``count`` is how many probes there are,
    ``act_of`` says what a matcher does with the events of one.

    Raises `KeyError` for the number of no probe.
    """

    def __init__(self, plan: Plan, act_of: Callable[[ProbeDecoder], Act] | None = None) -> None:
        super().__init__()
        self.count = len(plan.probes)
        self._plan = plan
        self._act_of = act_of
        self._pairs = ProbePairs(plan)
        self._names: list[Names] = [_types(each.go) if each.go else {} for each in plan.binaries]
        self.namer = Namer(plan.binaries)
        self._closings = _closings(plan)
        self._relayed = _relayed(plan)

    def grow(self, plan: Plan) -> None:
        """Have the decoders of a plan that has grown."""
        added = plan.binaries[len(self._names) :]
        self._names += [_types(each.go) if each.go else {} for each in added]
        self.namer.add(added)
        self.count, self._plan, self._pairs = len(plan.probes), plan, ProbePairs(plan)
        self._closings = _closings(plan)
        self._relayed = _relayed(plan)
        for number, decoding in self.items():
            decoding.closed_since = self._closed_since(plan.probes[number])

    def __missing__(self, number: int) -> ProbeDecoder:
        plan, pairs = self._plan, self._pairs
        if not 0 <= number < self.count:
            raise KeyError(number)
        probe = plan.probes[number]
        names = self._names[probe.binary] if probe.event is None else None
        go = plan.binaries[probe.binary].go if probe.event is None else None
        held = dict(zip(*go.held, strict=False)) if go else {}
        if go and probe.role == "panic":
            held = dict(zip(*go.thrown, strict=False)) | held
        around = Context(names, self.namer, probe.binary, probe.site.address, held)
        function = plan.functions[probe.function] if probe.function >= 0 else _NO_FUNCTION
        decoding = self[number] = ProbeDecoder(function, probe, around)
        decoding.binary = plan.path_of(probe.binary)
        decoding.finds_goroutines = plan.goroutines(probe) is not None
        decoding.by_uretprobe = pairs.is_hooked(number)
        decoding.entry = pairs.entry_of(number)
        returning = pairs.sees_returns(number)
        decoding.by_sites = returning and not decoding.by_uretprobe
        decoding.returns &= returning
        decoding.parts = pairs.parts_of(number)
        decoding.closed_since = self._closed_since(probe)
        if self._act_of is not None:
            decoding.act = self._act_of(decoding)
        return decoding

    def relayed(self, call: Call, relay: int) -> ProbeDecoder | None:
        """Return the decoder of the jump by which a call may wait for a relay; None if it may
        not."""
        number = self._relayed.get((self._plan.probes[call.probe].function, relay))
        return None if number is None else self[number]

    def _closed_since(self, probe: Probe) -> int:
        """See `ProbeDecoder`. What is attached together closes the calls that it opens."""
        times = self._closings.get(probe.pair, ())
        return min((0 if time == probe.since else time for time in times), default=NEVER)


OWN_VALUES = ("more values", "panic")
"""Roles of probes that have values which are not among the function's parameters."""

NEVER = 1 << 64
"""No event is as late."""

_NO_FUNCTION = Function("", 0, 0, 0)


def _relayed(plan: Plan) -> dict[tuple[int, int], int]:
    """The probes on jumps by function and relay."""
    return {
        (p.function, p.relay): n for n, p in enumerate(plan.probes) if p.role == "tail" and p.relay
    }


def _closings(plan: Plan) -> dict[str, set[int]]:
    """Since when the probes are attached that close calls, by their pair."""
    found: dict[str, set[int]] = {}
    for probe in plan.probes:
        if probe.pair and probe.role == "closes":
            found.setdefault(probe.pair, set()).add(probe.since)
    return found


def _types(go: GoLayout) -> Names:
    """The types of a program of Go. Damaged captures may lack their kinds."""
    hashes, names = go.types
    kinds = go.kinds if len(go.kinds) == len(names) else (0,) * len(names)
    return dict(zip(hashes, zip(names, kinds, strict=True), strict=True))


class ProbeDecoder:
    """What the events of a probe mean.

    ``role`` is that of the probe, ``pairing`` that of its source, empty where that is not
    known here, or ``key`` where the keys of calls alone pair them, ``act`` what a matcher does
    accordingly. ``entry`` is the probe that opens the calls which this one closes, -1 if it closes
    none. ``returns`` says that its calls are seen to end, however they return. ``pair``, ``key``
    and ``nests`` are those of `lbtrace.model.Probe`; calls of the pair that this one opens are
    closed by a probe since the time ``closed_since``. ``parameters`` are the names of its values;
    ``parts`` are the probes that read those of the same point, where there are several.
    ``leads_to``, ``goes_on`` and ``relay`` are those of `lbtrace.model.Probe`.
    """

    __slots__ = (
        *("_index", "act", "arguments", "binary", "by_sites", "by_uretprobe", "closed_since"),
        *("entry", "goes_on", "in_kernel", "key", "leads_to"),
        *("may_jump", "name", "nests", "pair", "pairing", "parameters", "parts", "region"),
        *("relay", "loops_to_entry", "result", "returns", "role", "stacks", "finds_goroutines"),
        *("thrown",),
    )

    act: Act
    arguments: Callable[[Event, Blob], Arguments]
    key: decoders.Arguments
    result: decoders.Result
    thrown: decoders.Result

    def __init__(self, function: Function, probe: Probe, around: Context) -> None:
        self._index = probe.function
        self.name = function.name
        self.binary = ""
        self.role = probe.role
        source = PROBES.get(probe.source)
        self.in_kernel = probe.event is not None
        self.pairing = source.pairing if source else ""
        self.entry = -1
        self.closed_since = 0
        self.by_uretprobe = False
        self.by_sites = False
        self.returns = not function.exits_hidden
        self.may_jump = function.may_jump
        self.loops_to_entry = function.loops_to_entry and probe.role in ("opens", "closes")
        self.stacks = probe.role in STACK_ROLES
        self.region = probe.role in ("stack", "stack below")
        self.finds_goroutines = False
        self.pair, self.nests = probe.pair, probe.nests
        if probe.pair:
            self.key = decoders.arguments(probe.key, probe.fetches, around)
        self.parts = range(0)
        values = probe.values if probe.role in OWN_VALUES else function.parameters
        self.parameters = [value.name for value in values]
        if probe.role in ("opens", "point", "blocked", *OWN_VALUES) or probe.pair:
            arguments = decoders.arguments(values, probe.fetches, around)
            # Tuples without names, which cost less: `Calls` gives them names, sinks need none.
            self.arguments = cast("Callable[[Event, Blob], Arguments]", arguments)
        self.leads_to, self.goes_on, self.relay = probe.leads_to, probe.goes_on, probe.relay
        if probe.role == "closes":
            self.result = decoders.result(function.result, probe.fetches, around)
        elif probe.role in LANDINGS:
            from lbtrace.calls import exceptions  # imported here because few programs throw

            self.thrown = exceptions.reader(probe.fetches)
        elif probe.role == "tail":
            self.result = decoders.result_of_tail(function.result, probe.fetches, around)

    def begin(self, event: Event, blob: Blob) -> Call:
        """Return the call that an event opens; its depth, and what was lost before, the stack
        knows."""
        return Call(
            self.name,
            event.pid,
            event.tid,
            0,
            event.time,
            event.frame,
            event.probe,
            self.arguments(event, blob),
            goroutine=event.lane,
            binary=self.binary,
            cpu=event.cpu,
        )

    def same(self, other: ProbeDecoder) -> bool:
        """Return whether both are probes of the same function."""
        return self._index == other._index
