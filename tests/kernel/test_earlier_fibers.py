"""Fibers that exist before a trace begins: their calls, compared with what the program logs."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Start = Callable[..., Any]


class Log(NamedTuple):
    """What the program says of its calls: their callers, and the results of those that returned."""

    callers: dict[int, int]
    results: dict[int, int]


def trace(start_lbtrace: Start, command: list[object], out: Path, *words: object) -> Log:
    """Trace the running program for a while, by ``words``, and return its log."""
    program = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin
    assert program.stdout
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=[program.stdout])
    try:
        while "ready" not in (line := program.stdout.readline()):
            lines.append(line)
        reader.start()
        which = words or ("--pid", program.pid)
        options = ("--func", "work", "--func", "turn", "-o", out, "--force")
        tracer = start_lbtrace("attach", *which, *options)
        tracer.wait_for("Ctrl-C ends")
        time.sleep(0.7)
        program.stdin.close()
        program.wait(20)
        tracer.process.terminate()
        status, _, error = tracer.finish()
        assert status == 0, error
        assert "nothing lost" in error
    finally:
        program.kill()
        program.wait()
    reader.join()
    return _log(lines)


def _log(lines: Iterable[str]) -> Log:
    log = Log({}, {})
    for line in lines:
        what, call, number = line.split()
        (log.callers if what == "enter" else log.results)[int(call)] = int(number)
    return log


def read(out: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, out.read_text().splitlines()) if r["type"] == "call"]


def work(calls: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The calls of the fibers, by their numbers."""
    return {call["args"][0]["value"]: call for call in calls if call["name"] == "work"}


def agree(log: Log, out: Path) -> None:
    """That each call is shown with its result, below its caller. The kernel does not tell on which
    stack a few are, while another thread changes the mappings: these are open, none is wrong."""
    calls = read(out)
    shown = work(calls)
    assert len(shown) > 50
    assert {*shown} >= {call for call in log.callers if call > min(shown) + 16}
    turns = [call for call in calls if call["name"] == "turn"]
    assert {(c["end"], c["depth"], c.get("stack")) for c in turns} == {("returned", 0, None)}
    lost = {n for n, call in shown.items() if call["end"] == "open" and n in log.results}
    assert len(lost) <= len(shown) // 500
    for number, call in sorted(shown.items()):
        if number in lost or log.callers[number] in lost:
            lost.add(number)
        else:
            caller = shown.get(log.callers[number])
            assert call["depth"] == (caller["depth"] + 1 if caller else 0), number
        if call["end"] != "open":
            assert (call["end"], call["result"]) == ("returned", log.results[number]), number


@pytest.mark.parametrize("name", ["earlier-fibers", "earlier-fibers-static"])
@pytest.mark.parametrize("threads", [1, 3])
def test_fibers_of_a_running_process(
    start_lbtrace: Start, programs: Path, tmp_path: Path, name: str, threads: int
) -> None:
    out = tmp_path / "calls.jsonl"
    log = trace(start_lbtrace, [programs / name, "contexts", 5, threads], out)
    agree(log, out)


@pytest.mark.slow
def test_more_fibers(start_lbtrace: Start, programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"
    for threads in (1, 2, 3, 4) * 5:
        seed = random.randrange(1 << 31)
        log = trace(start_lbtrace, [programs / "earlier-fibers", "contexts", seed, threads], out)
        print(seed, threads)
        agree(log, out)


@pytest.mark.parametrize("by", ["contexts", "jumps"])
@pytest.mark.parametrize("every", [False, True])
def test_what_is_not_known_is_open(
    start_lbtrace: Start, programs: Path, tmp_path: Path, by: str, every: bool
) -> None:
    """Where switches are not seen, calls may be shown at wrong depths, but none as left."""
    out, program = tmp_path / "calls.jsonl", programs / "earlier-fibers"
    words = ("--binary", program) if every else ()
    log = trace(start_lbtrace, [program, by, 6, 2], out, *words)
    shown = work(read(out))
    for number, call in shown.items():
        if call["end"] == "returned":
            assert call["result"] == log.results[number]
        else:
            assert call["end"] == "open"
