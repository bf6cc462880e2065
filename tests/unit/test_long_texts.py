"""Captures with names that are longer than any name: what is written of them is bounded."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.capture.long_texts import LONGEST
from lbtrace.commands import main
from lbtrace.model import Enumeration, Losses, Thread, Value
from lbtrace.sinks import FORMATS

LONG = 300_000
MARK = f"… ({LONG:,} characters)"


def with_long_name(plan, where):
    [function, *others] = plan.functions
    name = "n" * LONG
    if where == "function":
        function = replace(function, name=name)
    elif where == "argument":
        function = replace(function, parameters=(replace(function.parameters[0], name=name),))
    elif where == "bytes":  # not UTF-8, as lone surrogates
        function = replace(function, name="\udcff" * (LONG // 2))
    else:
        values = tuple((number, name) for number in range(10))
        kind = Enumeration("e", 4, True, values)
        function = replace(function, parameters=(Value("n", kind, 0),))
    return replace(plan, functions=(function, *others))


@pytest.mark.parametrize("format", [name for name, row in FORMATS.items() if not row.is_capture])
@pytest.mark.parametrize("where", ["function", "argument", "value", "bytes", "thread"])
@pytest.mark.parametrize("salvage", [(), ("--salvage",)])
def test_long_names_are_cut(capsys, tmp_path, fib_plan, script, format, where, salvage):
    path = tmp_path / "x.lbt"
    plan = fib_plan if where == "thread" else with_long_name(fib_plan, where)
    script.fib(3)
    name = "n" * LONG if where == "thread" else "fib"
    with open(path, "wb") as file:
        writer = CaptureWriter(file, plan)
        writer.write(script.batch((Thread(5, 7, name),)))
        writer.finish(Losses())
    out = tmp_path / "out"
    assert main(["export", str(path), "--format", format, "-o", str(out), *salvage]) == 0
    written = out.read_bytes()
    assert len(written) < 80 * LONGEST
    if where in ("function", "bytes"):
        assert b" characters)" in written
    if where == "function":
        with read_capture(path) as capture:
            assert capture.plan.functions[0].name == "n" * LONGEST + MARK


def test_what_is_as_long_as_a_name_stays(tmp_path, fib_plan):
    name = "é" * LONGEST
    plan = replace(fib_plan, functions=(replace(fib_plan.functions[0], name=name),))
    stream = io.BytesIO()
    CaptureWriter(stream, plan).finish(Losses())
    (tmp_path / "x.lbt").write_bytes(stream.getvalue())
    with read_capture(tmp_path / "x.lbt") as capture:
        assert capture.plan == plan
