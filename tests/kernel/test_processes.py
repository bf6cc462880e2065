"""Which processes are traced, and how they are told apart."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]


def test_children_that_execute_the_binary_are_followed(
    start: Start, start_lbtrace: Start, programs: Path
) -> None:
    shell = start("sh", "-c", f"read go; {programs}/loop 0 3; {programs}/loop 0 4", stdin=-1)
    other = start("sh", "-c", f"read go; {programs}/loop 0 5", stdin=-1)
    options = ("--binary", programs / "loop", "--func", "tick", "--format", "jsonl")
    tracer = start_lbtrace("attach", "--pid", shell.pid, "--follow", *options)
    tracer.wait_for("Ctrl-C ends")
    other.process.communicate("go\n")
    shell.process.stdin.write("go\n")
    shell.process.stdin.flush()
    status, out, error = tracer.finish()
    assert status == 0, error
    calls = [json.loads(line) for line in out.splitlines()]
    assert [call["end"] for call in calls if call["type"] == "call"] == ["returned"] * 7
    assert "7 calls in 2 threads of 2 processes" in error


def test_without_follow_only_the_process_itself(
    start: Start, start_lbtrace: Start, programs: Path
) -> None:
    shell = start("sh", "-c", f"read go; {programs}/loop 0 3; exit", stdin=-1)
    options = ("--binary", programs / "loop", "--func", "tick")
    tracer = start_lbtrace("attach", "--pid", shell.pid, *options)
    tracer.wait_for("Ctrl-C ends")
    shell.process.stdin.write("go\n")
    shell.process.stdin.flush()
    status, _, error = tracer.finish()
    assert status == 0
    assert "0 calls" in error


def test_a_container_is_shown_from_outside_and_inside(lbtrace: Run, programs: Path) -> None:
    """The first process of a pid namespace is number 1 there."""
    shell = ["unshare", "--pid", "--fork", programs / "loop", "100000", "3"]
    done = lbtrace("attach", "--binary", programs / "loop", "--func", "tick", "--", *shell)
    assert done.returncode == 0, done.stderr
    heading = next(line for line in done.stdout.splitlines() if "──" in line)
    assert heading.endswith("── loop, 1 inside its container")
    assert int(heading.split()[0]) > 1
    assert "3 calls in 1 thread of 1 process" in done.stderr


def test_lbtrace_inside_a_container_sees_its_numbers(lbtrace: Run, programs: Path) -> None:
    shell = 'mount -t proc proc /proc && exec "$@"'
    trace = ["attach", "--format", "jsonl", "--func", "tick", "--", programs / "loop", 0, 3]
    from_here = lbtrace(*trace)
    assert from_here.returncode == 0
    command = [*from_here.args[:3], *map(str, trace)]
    inside = ["unshare", "--pid", "--fork", "--mount", "sh", "-c", shell, "sh", *command]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    pids = {call["pid"] for call in calls if call["type"] == "call"}
    assert len(pids) == 1
    assert 1 < pids.pop() < 30
