"""What the events of each probe of a plan mean."""

from __future__ import annotations

from lbtrace.calls import decode
from lbtrace.calls.gathering import Context, Names
from lbtrace.calls.naming import Namer
from lbtrace.calls.stacks import StackKind
from lbtrace.model import Function, Plan, Probe


def decodings(plan: Plan) -> dict[int, Decoding]:
    entries = {p.function: n for n, p in enumerate(plan.probes) if p.kind in ("call", "entry")}
    returning = {p.function for p in plan.probes if p.kind in ("call", "return", "tail")}
    returning |= {n for n, f in enumerate(plan.functions) if f.returns.startswith("sites")}
    names: list[Names] = [
        dict(zip(*binary.go.types, strict=True)) if binary.go else {} for binary in plan.binaries
    ]
    namer = Namer([binary.symbols for binary in plan.binaries])
    decodings: dict[int, Decoding] = {}
    for number, probe in enumerate(plan.probes):
        around = Context(names[probe.binary], namer, probe.binary, probe.site.address)
        decoding = Decoding(plan.functions[probe.function], probe, around)
        decodings[number] = decoding
        decoding.binary = plan.binaries[probe.binary].path
        of_none = decoding.ends_goroutine or decoding.is_landing
        decoding.entry = -1 if of_none else entries.get(probe.function, number)
        decoding.by_sites = probe.function in returning and not decoding.by_uretprobe
        decoding.returns &= probe.function in returning
    return decodings


class Decoding:
    """What the events of a probe mean.

    ``entry`` is the probe at the entry of its function. ``returns`` says that
    its calls are seen to end, however they return.
    """

    __slots__ = (
        *("_index", "arguments", "binary", "by_sites", "by_uretprobe", "ends_goroutine", "entry"),
        *("is_landing", "is_switch", "is_tail", "may_jump", "name", "region", "result", "returns"),
    )

    def __init__(self, function: Function, probe: Probe, around: Context) -> None:
        self._index = probe.function
        self.name = function.name
        self.binary = ""
        self.entry = 0
        self.by_uretprobe = probe.kind == "call"
        self.by_sites = False
        self.returns = not function.exits_hidden
        self.may_jump = function.may_jump
        self.is_tail = probe.kind == "tail"
        self.ends_goroutine = probe.kind == "goroutine end"
        self.is_switch = probe.kind == "switch"
        self.is_landing = probe.kind == "landing"
        self.region: StackKind | None = None
        if probe.kind in ("stack", "signal stack"):
            self.region = probe.kind
        entry = probe.kind in ("call", "entry")
        self.arguments = decode.arguments(
            function.parameters if entry else (), probe.fetches, around
        )
        result = function.result if probe.kind in ("call", "return") else None
        self.result = decode.result(result, probe.result_fetches, around)

    def same(self, other: Decoding) -> bool:
        """Whether both are probes of the same function."""
        return self._index == other._index
