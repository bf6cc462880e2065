"""Probes in Go's runtime: where goroutines end, where they panic, and where they go on.

Sources: Go's ``runtime/panic.go`` (``gopanic``, ``deferreturn``, ``fatalpanic``) and
``runtime/runtime2.go`` (``g``, ``_panic``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbtrace.abi.locations import WORD, Detail
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.go_call_values import plan_values
from lbtrace.model import LONG, Fetch, Formal, Probe, Prototype, Scalar, Value
from lbtrace.model.wire_limits import FETCHES
from lbtrace.values.interface import PANIC_VALUE

if TYPE_CHECKING:
    from lbtrace.plan.go.planner import GoPlan

GOROUTINE_END = "runtime.goexit1"
"""What goroutines call when they end."""

PANIC = "runtime.gopanic"
"""What every panic calls, also of the runtime itself, with its value."""

RESUMED = "runtime.deferreturn"
"""What a function calls first that goes on because one of its deferred calls has recovered a panic;
others call it at their end. Calls below its frame are over in any case."""

CRASH = "runtime.fatalpanic"
"""What ends the program when all deferred calls are done."""

STACK_HIGH, FORMER = 8, 32
"""Offsets in ``g``: of the upper end of its stack, and of the panic that is on its way."""

RUNNING = (((1, 27), 48), ((1, 26), 40), ((1, 22), 48))
"""Since which version, at which offset in a panic the frame is whose deferred calls run."""


def plan_probes(go: GoPlan, *, telling: bool) -> Iterator[Probe]:
    """Yield the probes; of panics only those that are ``telling``, which show what left calls."""
    yield from _probe(go, GOROUTINE_END, "lane end", "reports when goroutines end")
    values = _of_panic(go) if telling else None
    if values is None:
        return
    for probe in _probe(go, PANIC, "panic", "reports what a goroutine panics with", values):
        yield probe
        yield from _probe(go, RESUMED, "landing", "reports which calls were left")
        yield from _probe(go, CRASH, "crash", "reports that a panic ends the program")


def _probe(
    go: GoPlan, name: str, role: str, reason: str, values: CallValues | None = None
) -> Iterator[Probe]:
    function = go.named(name)
    values = values or CallValues()
    site = function and go.entry(function, values)
    if site:
        site = replace(site, reason=reason)
        yield Probe(site, role, fetches=values.fetches, values=values.parameters)


def _of_panic(go: GoPlan) -> CallValues | None:
    """The value of a panic; and where another one is on its way, the frame whose deferred call
    panics now, and the upper end of the stack."""
    function = go.named(PANIC)
    if function is None:
        return None
    words = (Scalar(0, WORD, "integer"), Scalar(WORD, WORD, "integer"))
    formal = Formal("value", PANIC_VALUE, 2 * WORD, words)
    made = plan_values(
        Prototype((formal,)), go.convention(function), FETCHES - 2, Detail(places=go.panic_places)
    )
    at = next((offset for since, offset in RUNNING if go.version >= since), None)
    if at is None or not go.register:
        return made
    word = Fetch(register=go.register, read="integer", size=8, optional=True)
    frame = replace(word, offset=FORMER, derefs=(at,))
    more = (Value("frame", LONG, len(made.fetches)), Value("high", LONG, len(made.fetches) + 1))
    return replace(
        made,
        parameters=(*made.parameters, *more),
        fetches=(*made.fetches, frame, replace(word, offset=STACK_HIGH)),
    )
