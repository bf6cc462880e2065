"""Every call, argument and result agrees with what the traced program logged itself."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def logged(path: Path) -> dict[tuple[int, int], list[list[str]]]:
    """What the program says, by process and thread, in the order of returns."""
    reported: dict[tuple[int, int], list[list[str]]] = defaultdict(list)
    for line in path.read_text().splitlines():
        pid, tid, *call = line.split()
        reported[int(pid), int(tid)].append(call)
    return reported


def traced(text: str) -> dict[tuple[int, int], list[list[str]]]:
    """What the trace says, in the same form."""
    seen: dict[tuple[int, int], list[list[str]]] = defaultdict(list)
    for line in text.splitlines():
        record = json.loads(line)
        if record["type"] != "call":
            continue
        name = record["name"]
        # gcc lets it jump to what it calls last; where returns are seen by sites that shows.
        ends = ("returned", "tail") if name == "traced_nothing" else ("returned",)
        assert record["end"] in ends, record
        values = [argument["value"] for argument in record["args"]]
        if name == "traced_kinds":
            values[2] = "(nil)" if values[2] == "0x0" else values[2]
        result = "void" if name == "traced_nothing" else word(record["result"])
        words = [word(value) for value in values]
        seen[record["pid"], record["tid"]].append([name, result, *words])
    return seen


def word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("program", ["truth", "truth-O0", "truth-O2"])
def test_one_thread(lbtrace: Run, programs: Path, tmp_path: Path, mode: str, program: str) -> None:
    log = tmp_path / "log"
    command = [programs / program, log, "alone", 1, 500]
    done = lbtrace(
        *("attach", "--mode", mode, "--func", "traced_*", "--format", "jsonl", "--strict", "--"),
        *command,
    )
    assert done.returncode == 0, done.stderr
    assert traced(done.stdout) == logged(log)


@pytest.mark.parametrize(("kind", "many", "rounds"), [("threads", 8, 500), ("fork", 4, 300)])
def test_several(
    lbtrace: Run, programs: Path, tmp_path: Path, mode: str, kind: str, many: int, rounds: int
) -> None:
    """Threads, and processes that are forked without executing another program."""
    log = tmp_path / "log"
    done = lbtrace(
        *("attach", "--mode", mode, "--func", "/^traced_/", "--format", "jsonl", "--strict", "--"),
        *(programs / "truth", log, kind, many, rounds),
    )
    assert done.returncode == 0, done.stderr
    reported = logged(log)
    assert len(reported) == many
    assert traced(done.stdout) == reported


@pytest.mark.parametrize("live", [False, True])
def test_70_000_calls(lbtrace: Run, programs: Path, tmp_path: Path, live: bool) -> None:
    """A sink slower than the program makes memory fill, not the ring."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    # Room for the moments in which a busy machine lets the reader wait.
    output = ("--format", "jsonl", "--ring-size", "64M") if live else ("-o", capture)
    command = (programs / "truth-O2", log, "alone", 1, 9_600)
    done = lbtrace("attach", "--func", "traced_*", "--strict", *output, "--", *command)
    assert done.returncode == 0, done.stderr
    shown = done if live else lbtrace("export", capture, "--format", "jsonl")
    reported = logged(log)
    assert sum(map(len, reported.values())) > 70_000
    assert traced(shown.stdout) == reported


def test_any_process_that_runs_the_binary(
    start_lbtrace: Callable[..., Any], programs: Path, tmp_path: Path, mode: str
) -> None:
    log = tmp_path / "log"
    tracer = start_lbtrace(
        *("attach", "--mode", mode, "--binary", programs / "truth", "--func", "traced_*"),
        *("--format", "jsonl", "--strict"),
    )
    tracer.wait_for("Ctrl-C ends")
    for _ in range(3):
        subprocess.run([programs / "truth", log, "alone", "1", "50"], check=True)
    tracer.process.send_signal(2)
    status, out, error = tracer.finish()
    assert status == 0, error
    reported = logged(log)
    assert len(reported) == 3
    assert traced(out) == reported
    total = sum(map(len, reported.values()))
    assert f"{total:,} calls in 3 threads of 3 processes, nothing lost" in error
