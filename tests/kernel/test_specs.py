"""What the kernel program fetches and compares, driven by hand-made plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from lbtrace.bpf.features import may_sleep
from lbtrace.model import (
    CLOSE,
    KIND,
    LOSS,
    OPEN,
    Batch,
    Condition,
    Event,
    Fetch,
    Losses,
    Plan,
    Target,
)
from lbtrace.model.wire import decode
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.return_strategy import Returns
from lbtrace.session.options import Options
from lbtrace.session.session import Session

LENGTHS = [4, 0, 4, 10000, 4, *range(-5, 5)]
"""What values.c passes to take_string as its second argument."""


@pytest.fixture(params=["x86_64"])
def registers(programs: Path) -> tuple[str, str]:
    """The registers of the first two arguments."""
    machine = make_plan(str(programs / "values"), Selection(("take_string",))).binaries[0].machine
    return ("di", "si") if machine == "x86_64" else ("x0", "x1")


def plan(program: Path, function: str, *fetches: Fetch, where: tuple[Condition, ...] = ()) -> Plan:
    made = make_plan(str(program), Selection((function,)))
    opens, *closes = made.probes
    opens = replace(opens, fetches=fetches, conditions=where)
    return replace(made, probes=(opens, *(replace(each, fetches=()) for each in closes)))


def run(made: Plan, program: Path, mode: str) -> tuple[list[tuple[Event, bytes]], Losses]:
    """The hits of probes, each with the bytes that accompany it."""
    target = Target(command=(str(program),))
    with Session(made, target, Options(mode=mode)) as session:  # type: ignore[arg-type]
        events = [pair for batch in session.batches() for pair in split(batch)]
        return [pair for pair in events if pair[0].kind & KIND < LOSS], session.losses()


def split(batch: Batch) -> Iterator[tuple[Event, bytes]]:
    position = 0
    for event in decode(batch):
        yield event, bytes(batch.blobs[position : position + event.blob])
        position += event.blob


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def test_a_page_that_is_not_there_yet(
    programs: Path, mode: str, registers: tuple[str, str]
) -> None:
    """Kernels whose programs may sleep fetch it; others say that they could not read it."""
    program = programs / "values"
    made = plan(program, "take_cold", Fetch(register=registers[0], read="string", limit=3))
    events, losses = run(made, program, mode)
    event, blob = events[0]
    if may_sleep():
        assert (blob, event.faults, losses.string_fault) == (b"ELF", 0, 0)
    else:
        assert (blob, event.faults, losses.string_fault) == (b"", 1, 1)


def test_conditions(programs: Path, mode: str, registers: tuple[str, str]) -> None:
    program = programs / "values"
    where = (Condition(0, "<", -2), Condition(0, "==", 4))
    made = plan(program, "take_string", Fetch(register=registers[1]), where=where)
    events, _ = run(made, program, mode)
    seen = [signed(event.value0) for event, _ in events if event.kind == OPEN]
    assert seen == [length for length in LENGTHS if length < -2 or length == 4]
    if mode == "session":  # a call that is not sent has no return to pay for
        assert len(events) == 2 * len(seen)


@pytest.mark.parametrize("returns", ["uretprobe", "sites"])
@pytest.mark.parametrize("least", [0, 20])
def test_what_a_register_held_at_entry(
    programs: Path, mode: str, registers: tuple[str, str], returns: Returns, least: int
) -> None:
    """The address of a result in memory, which the calls within overwrite."""
    program, address = programs / "values", "di" if registers[0] == "di" else "x8"
    kept = Fetch(base="kept", register=address, read="integer", size=8)
    fetches = tuple(replace(kept, offset=offset) for offset in (8, 24))
    where = (Condition(0, ">=", least),) if least else ()
    made = make_plan(str(program), Selection(("make_large",), returns=returns))
    probes = [
        replace(probe, keeps=address, fetches=(), action="keep" if where else "send")
        if probe.role == "opens"
        else replace(probe, keeps=address, fetches=fetches, conditions=where)
        for probe in made.probes
    ]
    events, losses = run(replace(made, probes=tuple(probes)), program, mode)
    leaves = [event for event, _ in events if event.kind == CLOSE]
    seen = [(event.value0, event.value1, event.faults) for event in leaves]
    all_of_them = [(10 * n, 10 * (n - 1), 0) for most in (1, 2, 3) for n in range(1, most + 1)]
    assert seen == [values for values in all_of_them if values[0] >= least]
    assert len(events) == 2 * len(leaves)
    assert losses.events == 0


def test_a_register_of_an_unseen_entry(
    programs: Path, mode: str, registers: tuple[str, str]
) -> None:
    """What it held is not made up."""
    program, address = programs / "values", "di" if registers[0] == "di" else "x8"
    kept = Fetch(base="kept", register=address, read="integer", size=8)
    made = make_plan(str(program), Selection(("make_large",), returns="sites"))
    probes = [
        replace(probe, keeps=address, fetches=(kept, Fetch(base="constant", offset=5)))
        for probe in made.probes
        if probe.role == "closes"
    ]
    events, losses = run(replace(made, probes=tuple(probes)), program, mode)
    assert [(event.faults, event.value1) for event, _ in events] == [(1, 5)] * 6
    assert losses.events == 0


def test_layout_of_events_is_that_of_the_objects() -> None:
    """lbtrace/model/wire.py against the structs that the objects were compiled with."""
    from lbtrace.bpf._libbpf import ffi, lib

    from lbtrace.bpf.objects import open_object
    from lbtrace.model.wire import EVENT, EVENT_SIZE

    assert ffi.sizeof("struct lbt_event") == EVENT_SIZE
    fields = dict(ffi.typeof("struct lbt_event").fields)
    order = sorted(fields, key=lambda name: fields[name].offset)
    assert order[:-1] == list(Event.__struct_fields__[:10])
    formats = {8: "Q", 4: "I", 2: "H"}
    expected = "".join(formats[ffi.sizeof(fields[name].type)] for name in order[:-1]) + "6Q"
    compact = EVENT.format.lstrip("<")
    assert expanded(compact) == expanded(expected)
    loaded = open_object()
    try:
        btf = lib.bpf_object__btf(loaded)
        for struct in ("lbt_event", "lbt_spec", "lbt_fetch", "lbt_condition", "lbt_config"):
            number = lib.btf__find_by_name(btf, struct.encode())
            if struct == "lbt_event":
                assert number > 0
            if number > 0:
                assert lib.btf__resolve_size(btf, number) == ffi.sizeof(f"struct {struct}")
    finally:
        lib.bpf_object__close(loaded)


def expanded(layout: str) -> str:
    out, count = "", ""
    for character in layout:
        if character.isdigit():
            count += character
        else:
            out += character * int(count or 1)
            count = ""
    return out
