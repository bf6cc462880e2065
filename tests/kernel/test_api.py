"""Tracing from Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace


def test_command(programs: Path, mode: str) -> None:
    options = lbtrace.Options(mode=mode)  # type: ignore[arg-type]
    command = [str(programs / "fib"), "4"]
    with lbtrace.trace(command=command, functions=["fib"], options=options) as session:
        calls = list(session.calls())
        assert session.wait() == 0
        assert session.losses().total == 0
    seen = [(call.depth, call.args[0].value, call.result) for call in calls]
    assert seen == [
        *((3, 1, 1), (3, 0, 0), (2, 2, 1), (2, 1, 1), (1, 3, 2)),
        *((2, 1, 1), (2, 0, 0), (1, 2, 1), (0, 4, 3)),
    ]
    assert {call.name for call in calls} == {"fib"}
    assert {call.args[0].name for call in calls} == {"n"}
    assert len({call.pid for call in calls}) == 1
    assert all(call.end == "returned" and call.duration for call in calls)
    outermost = calls[-1]
    assert all(outermost.start < call.start for call in calls[:-1])


def test_pid_and_stop(programs: Path, start: Callable[..., Any]) -> None:
    loop = start(programs / "loop", 200)
    loop.wait_for("ready", "stdout")
    with lbtrace.trace(pid=loop.pid, functions=["tick"], max_depth=1) as session:
        seen = []
        for call in session.calls():
            seen.append(call)
            if len(seen) == 5:
                session.stop()
        assert session.wait() is None
    assert len(seen) >= 5
    assert [c.args[0].value + 1 for c in seen if c.end == "returned"] == [
        c.result for c in seen if c.end == "returned"
    ]
    assert loop.process.poll() is None


def test_leaving_early_detaches_and_lets_the_command_go_on(programs: Path) -> None:
    command = [str(programs / "loop"), "1000"]
    with lbtrace.trace(command=command, functions=["tick"]) as session:
        next(session.calls())
    done = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "loop"], text=True, capture_output=True, check=True
    )
    subprocess.run(["kill", done.stdout.split()[0]], check=True)
    assert session.wait() == 7


def test_never_entered_or_never_iterated(programs: Path) -> None:
    """A command that nobody let go does not run."""
    command = ["sh", "-c", "echo ran"]
    with lbtrace.trace(command=command, binary=str(programs / "fib"), functions=["fib"]):
        pass
    lbtrace.trace(command=command, binary=str(programs / "fib"), functions=["fib"])


def test_values_and_filter(programs: Path) -> None:
    """What the command takes with --arg, --where, --args, --depth and --strings."""
    values = str(programs / "values")
    with lbtrace.trace(
        command=[values],
        functions=["take_string"],
        arg=["who=str(arg0, arg1)", "length"],
        where='length == 4 and text startswith "fest"',
        strings=3,
    ) as session:
        calls = list(session.calls())
        assert session.wait() == 0
    seen = [[(a.name, a.value) for a in call.args] for call in calls]
    assert seen == [[("who", lbtrace.Text(b"fes", 4)), ("length", 4)]]
    with lbtrace.trace(command=[values], functions=["take_node"], depth=1) as session:
        node, which = next(iter(session.calls())).args
    assert isinstance(node.value, lbtrace.Referent)
    assert isinstance(node.value.value, lbtrace.Fields)
    assert node.value.value.fields[0] == lbtrace.Argument("key", 11)
    assert which.value == 1
    with lbtrace.trace(command=[values], functions=["take_node"], args=0) as session:
        assert {call.args for call in session.calls()} == {()}


def test_errors(programs: Path) -> None:
    with pytest.raises(lbtrace.LbtraceError, match="matches no function") as raised:
        lbtrace.trace(binary=str(programs / "fib"), functions=["fibber"])
    assert "fib" in raised.value.hint
    with pytest.raises(lbtrace.LbtraceError, match="no argument 9") as raised:
        lbtrace.trace(binary=str(programs / "fib"), functions=["fib"], where="n > 2 and arg9 == 1")
    assert raised.value.detail.splitlines() == ["  n > 2 and arg9 == 1", " " * 12 + "^"]
    with pytest.raises(lbtrace.LbtraceError, match="too small"):
        lbtrace.trace(binary=str(programs / "fib"), functions=["fib"], strings=0)
    with pytest.raises(lbtrace.LbtraceError, match="nothing to trace"):
        lbtrace.trace(functions=["fib"])
