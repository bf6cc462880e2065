"""Plans that grow while the trace runs: what is added is matched, shown, recorded and read back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.commands import main
from lbtrace.commands.output import render
from lbtrace.errors import CaptureError
from lbtrace.model import (
    Addition,
    Batch,
    Binary,
    Fetch,
    Function,
    Integer,
    Losses,
    Plan,
    Probe,
    Site,
    Thread,
    Value,
)
from lbtrace.plan.merge import as_addition
from lbtrace.sinks import FORMATS

INT = Integer("int", 4, True)
EMPTY = Plan((Binary("./program"),), (), (), may_grow=True)
POINTS = 300
"""Of each file: more than are matched one by one."""


def plan_of_file(name: str) -> Plan:
    """What is planned of a file with one marker."""
    function = Function(
        name, 0x40, 0, 0x40, parameters=(Value("n", INT, 0),), typed=True, returns="none"
    )
    probe = Probe(Site(0x40, 0x40), "point", 0, "marker", (Fetch(register="di"),))
    return Plan((Binary(f"./{name}.so"),), (function,), (probe,))


@pytest.fixture
def trace(script: Any) -> list[Batch | Addition]:
    """Two additions, each with a batch of its points."""
    plan, made = EMPTY, list[Batch | Addition]()
    for number, name in enumerate(("early", "late")):
        addition = as_addition(plan_of_file(name), plan)
        plan = plan.grown(addition)
        for n in range(POINTS):
            script.hit(number, 0x7000, n)
        made += [addition, script.batch((Thread(5, 7, "prog"),))]
    return made


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., tuple[Path, list[int]]]:
    def write_capture(trace: list[Batch | Addition], plan: Plan = EMPTY) -> tuple[Path, list[int]]:
        stream = io.BytesIO()
        writer, ends = CaptureWriter(stream, plan), []
        for each in trace:
            ends.append(stream.tell())
            writer.write(each)
        writer.finish(Losses())
        path = tmp_path / "x.lbt"
        path.write_bytes(stream.getvalue())
        return path, ends

    return write_capture


def named(path: Path) -> Iterator[tuple[str, int]]:
    with read_capture(str(path)) as capture:
        for call in capture.calls():
            yield call.name, call["n"]


@pytest.mark.parametrize(
    "name", sorted(name for name, row in FORMATS.items() if not row.is_capture)
)
def test_functions_go_on_beside_what_was_added(
    name: str, script: Any, fib_plan: Plan, write: Any
) -> None:
    """Calls that are open meanwhile, in fast batches that native code matches."""
    plan, batches = replace(fib_plan, may_grow=True), list[Batch | Addition]()
    start = plan
    for number, file in enumerate(("early", "late")):
        script.call(0, 100 + number)
        script.fib(12)
        batches.append(script.batch((Thread(5, 7, "prog"),)))
        addition = as_addition(plan_of_file(file), plan)
        plan = plan.grown(addition)
        for n in range(POINTS):
            script.hit(2 + number, 0x7000, n)
        script.fib(12)
        batches += [addition, script.batch()]
    script.ret(0, 201)
    script.ret(0, 200)
    batches.append(script.batch())
    live, read = io.StringIO(), io.StringIO()
    sink = FORMATS[name].load()(live, start)
    summary = render(start, batches, sink, lambda: (Losses(), False))
    path, _ = write(batches, start)
    with read_capture(str(path)) as capture:
        sink = FORMATS[name].load()(read, capture.plan)
        again = render(capture.plan, capture.batches(), sink, lambda: (Losses(), False))
    assert live.getvalue() == read.getvalue()
    assert (summary.calls, summary.points) == (again.calls, again.points) == (4 * 465 + 2, 2 * 300)
    assert [c.end for c in read_capture(str(path)).calls() if c.name == "fib"] == (
        ["returned"] * summary.calls
    )


def test_a_damaged_addition(trace: Any, write: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """What needs it, or one after it, is left out, and no name is mistaken."""
    path, ends = write(trace)
    data = bytearray(path.read_bytes())
    data[ends[0] + 40] ^= 1
    path.write_bytes(data)
    assert list(named(path)) == []
    assert main(["export", str(path), "--salvage", "--format", "jsonl"]) == 0
    out, err = capfd.readouterr()
    points = [json.loads(line) for line in out.splitlines()]
    assert not [each["name"] for each in points if each["type"] == "point"]
    assert "left out" in err


def test_an_impossible_addition(trace: Any, write: Any) -> None:
    trace[2] = replace(trace[2], probes=(replace(trace[2].probes[0], function=9),))
    with pytest.raises(CaptureError, match="probe 1 is of function 9 of 2"):
        read_capture(str(write(trace)[0]))
