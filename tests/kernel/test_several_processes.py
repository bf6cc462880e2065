"""Several processes as the target: workers of a server, and no other process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lbtrace as api

Start = Callable[..., Any]
Run = Callable[..., subprocess.CompletedProcess[str]]

STEPS = (10, 20, 30, 40)
"""How often each worker does what it does."""


class Workers:
    """Forked processes that wait for a word."""

    def __init__(self, program: Path) -> None:
        self.parent = subprocess.Popen([program], stdin=-1, stdout=-1, text=True)
        assert self.parent.stdout
        self.pids = [int(self.parent.stdout.readline()) for _ in STEPS]

    def begin(self) -> None:
        assert self.parent.stdin
        self.parent.stdin.write("\n")
        self.parent.stdin.flush()


@pytest.fixture
def workers(programs: Path) -> Iterator[Workers]:
    made = Workers(programs / "workers")
    yield made
    made.parent.communicate("\n\n")


def seen(text: str) -> Counter[tuple[int, str]]:
    """How often processes did what, by pid and name."""
    records = [json.loads(line) for line in text.splitlines()]
    return Counter((r["pid"], r["name"]) for r in records if r["type"] in ("call", "point"))


@pytest.mark.parametrize(
    "asked",
    [
        {"--func": "work"},
        {"--syscall": "getppid"},
        {"--usdt": "workers:done"},
        {"--tracepoint": "syscalls:sys_enter_getppid"},
        {"--func": "work", "--usdt": "workers:done", "--syscall": "getppid"},
    ],
    ids="-".join,
)
def test_all_of_each_and_nothing_of_others(
    start_lbtrace: Start, workers: Workers, asked: dict[str, str]
) -> None:
    first, _, second, _ = workers.pids
    words = [word for pair in asked.items() for word in pair]
    pids = ("--pid", f"{first},{second}") if len(asked) > 1 else ("--pid", first, "-p", second)
    tracer = start_lbtrace("attach", *pids, *words, "--format", "jsonl")
    tracer.wait_for("Ctrl-C ends")
    workers.begin()
    status, out, error = tracer.finish()
    assert status == 0, error
    did = {first: STEPS[0], second: STEPS[2]}
    assert seen(out) == {(pid, name): n for pid, n in did.items() for name in asked.values()}
    assert "of 2 processes, nothing lost" in error


def test_their_children_if_they_are_to_be_followed(start_lbtrace: Start, workers: Workers) -> None:
    pids = ",".join(map(str, workers.pids[1:3]))
    tracer = start_lbtrace("attach", "--pid", pids, "--follow", "--func", "work")
    tracer.wait_for("Ctrl-C ends")
    workers.begin()
    status, _, error = tracer.finish()
    assert status == 0
    assert f"{STEPS[1] + STEPS[2] + 2} calls in 4 threads of 4 processes, nothing lost" in error


def test_a_capture_has_the_stacks_of_each(
    start_lbtrace: Start, lbtrace: Run, workers: Workers, tmp_path: Path
) -> None:
    capture = tmp_path / "run.lbt"
    pids = ",".join(map(str, workers.pids[:2]))
    tracer = start_lbtrace("attach", "--pid", pids, "--func", "work", "--stack", 1, "-o", capture)
    tracer.wait_for("Ctrl-C ends")
    workers.begin()
    assert tracer.finish()[0] == 0
    text = lbtrace("export", capture, "--format", "jsonl").stdout
    records = [json.loads(line) for line in text.splitlines()]
    found = Counter(
        (r["pid"], *(frame["name"] for frame in r["callers"]["frames"]))
        for r in records
        if r["type"] == "call"
    )
    of_each = dict(zip(workers.pids, STEPS[:2], strict=False))
    assert found == {(pid, "step"): n for pid, n in of_each.items()}


def test_python_counts_them(workers: Workers) -> None:
    first, second, *_ = workers.pids
    with api.trace(functions="work", pid=[second, first, second], action="count") as trace:
        workers.begin()
        counts = {count.pid: count.count for count in trace.counts()}
    assert counts == {first: STEPS[0], second: STEPS[1]}


def test_the_trace_goes_on_when_one_has_ended(
    start: Start, start_lbtrace: Start, workers: Workers
) -> None:
    short = start(sys.executable, "-c", "input()", stdin=-1)
    pids = f"{short.pid},{workers.pids[0]}"
    words = ("--pid", pids, "--syscall", "getppid,exit_group", "--format", "jsonl")
    tracer = start_lbtrace("attach", *words)
    tracer.wait_for("Ctrl-C ends")
    short.process.communicate("\n")
    assert tracer.process.poll() is None
    workers.begin()
    status, out, error = tracer.finish()
    assert status == 0, error
    found = seen(out)
    assert found[short.pid, "exit_group"] == 1
    assert found[workers.pids[0], "getppid"] == STEPS[0]


def test_a_pid_that_is_none_is_named(lbtrace: Run, workers: Workers) -> None:
    done = lbtrace("attach", "--pid", f"{workers.pids[0]},4194305", "--func", "work")
    assert done.returncode == 1
    assert "no process has the pid 4194305" in done.stderr
