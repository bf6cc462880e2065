"""Checks that a plan can be recorded and read back: its references are valid, its sizes and
nesting within bounds.

Kinds of values are not checked. Whether the bytes of an event make a value of its type is decided
by the decoder, event by event (`lbtrace.calls.decoders`).
"""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.errors import CaptureError
from lbtrace.model import NO_BINARY, NO_FUNCTION, Function, Plan, Probe, Value
from lbtrace.model.wire_limits import VALUES
from lbtrace.probes import ROLES

NESTING = 64
"""Members within members that a value may have."""

REACH = 1 << 48
"""Offsets into what was fetched lie below: more than any process has."""

BITS = 128
"""A bit field ends within this many."""


def check_plan(plan: Plan) -> None:
    """Raise `CaptureError` for a plan with which a capture could not be read back."""
    fault = next(find_faults(plan), None)
    if fault is not None:
        raise CaptureError(
            f"no capture of this trace could be read back: {fault}",
            "leave that function out, or choose another --format, and report this",
        )


def find_faults(plan: Plan) -> Iterator[str]:
    """Yield all that is wrong with the references, sizes and nesting in a plan."""
    binaries, functions = len(plan.binaries), len(plan.functions)
    for binary in plan.binaries:
        for what, (keys, names) in (
            ("types", binary.go.types if binary.go else ((), ())),
            ("symbols", (binary.symbols.addresses, binary.symbols.names)),
        ):
            if len(keys) != len(names):
                yield f"the names in {binary.path}: {len(keys)} {what}, {len(names)} names of them"
    for function in plan.functions:
        if not NO_BINARY <= function.binary < binaries:
            yield f"function {function.name}: its binary is {function.binary} of {binaries}"
    for number, probe in enumerate(plan.probes):
        if not (NO_BINARY if probe.event else 0) <= probe.binary < binaries:
            yield f"probe {number} is in binary {probe.binary} of {binaries}"
        elif not _least_function(probe) <= probe.function < functions:
            yield f"probe {number} is of function {probe.function} of {functions}"
        elif probe.role == "more values" and not _adds_to(plan, number):
            yield f"probe {number} adds values to no point"
        elif probe.function >= 0:
            yield from _faults_of_values(plan.functions[probe.function], probe)


def _least_function(probe: Probe) -> int:
    """The lowest number that the function of a probe may have."""
    role = ROLES.get(probe.role)
    return 0 if role and role.of_function else NO_FUNCTION


def _adds_to(plan: Plan, number: int) -> bool:
    """Whether the probe before one with more values is of the same point."""
    before = plan.probes[number - 1] if number else None
    if before is None or before.function != plan.probes[number].function:
        return False
    return before.role in ("point", "more values")


def _faults_of_values(function: Function, probe: Probe) -> Iterator[str]:
    if probe.role in ("opens", "point") or probe.pair:
        named = [(f"parameter {v.name or n}", v) for n, v in enumerate(function.parameters)]
    elif probe.role == "closes" and function.result:
        named = [("result", function.result)]
    else:
        named = []
    named += [(f"key {v.name}", v) for v in probe.key]
    named += [(f"variable {v.name}", v) for v in probe.values]
    slots = max(VALUES, len(probe.fetches))
    for name, value in named:
        if what := _fault_of_value(value, slots, NESTING):
            yield f"function {function.name}, {name}{what}"


def _fault_of_value(value: Value, slots: int, depth: int) -> str:
    """What is wrong with a value of a probe with ``slots`` slots; empty if nothing."""
    if depth < 0:
        return f": members are nested more than {NESTING} deep"
    if not -1 <= value.slot < slots:
        return f": its slot is {value.slot} of {slots}"
    if not 0 <= value.offset < REACH:
        return f": its offset is {value.offset}"
    if min(value.bit_offset, value.bit_size) < 0 or value.bit_offset + value.bit_size > BITS:
        return f": its bits are {value.bit_size} from {value.bit_offset} on"
    for number, member in enumerate(value.members):
        if what := _fault_of_value(member, slots, depth - 1):
            name = f".{member.name}" if member.name else f"[{number}]"
            return name + what
    return ""
