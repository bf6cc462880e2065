"""Calls whose returns the kernel does not hook, because 64 are pending: of whatever tool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIMIT = 64
"""MAX_URETPROBE_DEPTH, include/linux/uprobes.h."""

Trace = Callable[..., list[tuple[dict[str, list[str]], int]]]


@pytest.fixture
def trace(start: Callable[..., Any], start_lbtrace: Callable[..., Any], programs: Path) -> Trace:
    """Runs the program with ``words`` while some functions are traced, each by a tool of its own
    that attaches in a mode. Returns for each tool how calls end, by function and in the order of
    their beginning, and how many returns were too deep."""

    def run(words: str, mode: str, *patterns: str) -> list[tuple[dict[str, list[str]], int]]:
        target = start(programs / "depth", *words.split(), stdin=subprocess.PIPE)
        tools = []
        for pattern in patterns:
            options = ("--mode", mode, "--returns", "uretprobe", "--unsafe", "--format", "jsonl")
            tools.append(start_lbtrace("attach", "--pid", target.pid, "--func", pattern, *options))
            tools[-1].wait_for("Ctrl-C ends")
        out, _ = target.process.communicate("\n", timeout=60)
        assert target.process.returncode == 0
        assert all(line.split()[0] in ("inner", "outer", "around") for line in out.splitlines())
        return [ends(tool.finish()[1]) for tool in tools]

    return run


def ends(text: str) -> tuple[dict[str, list[str]], int]:
    """How the calls of a jsonl output end, and how many returns were too deep."""
    lines = [json.loads(line) for line in text.splitlines()]
    found: dict[str, list[str]] = {}
    calls = [line for line in lines if line["type"] == "call"]
    for call in sorted(calls, key=lambda call: (call["start"], call["depth"])):
        found.setdefault(call["name"], []).append(call["end"])
    return found, lines[-1]["lost"]["return_depth"]


def test_deeper_calls_are_open(trace: Trace, mode: str) -> None:
    (found,) = trace("i 99", mode, "inner")
    assert found == ({"inner": ["returned"] * LIMIT + ["open"] * 36}, 36)


def test_a_function_that_jumps_to_its_beginning_is_one_call(trace: Trace, mode: str) -> None:
    """The kernel hooks it in each round, unless a session refuses. Nothing of it is lost then, but
    there is no room for what it calls."""
    (short,) = trace("r 40 r 63", mode, "around")
    assert short == ({"around": ["returned"] * 2}, 0)
    (long,) = trace("r 1000 r 10", mode, "around")
    assert long == ({"around": ["returned"] * 2}, 0)
    (both,) = trace("r 100 f 3", mode, "/^(around|leaf)$/")
    hooked = 100 if mode == "session" else LIMIT - 1
    leaves = ["returned"] * hooked + ["open"] * (100 - hooked) + ["returned"] * 3
    assert both == ({"around": ["returned"], "leaf": leaves}, 100 - hooked)
