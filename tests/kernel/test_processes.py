"""Which processes are traced, and how they are distinguished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbtrace.bpf.features import filters_by_thread

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


WORKERS = """
import os, time
for _ in range(2):
    if not (worker := os.fork()):
        time.sleep(60)
    print(worker, flush=True)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_workers_of_a_server_are_named(
    start: Start, lbtrace: Run, programs: Path, follow: tuple[str, ...]
) -> None:
    server = start(sys.executable, "-c", WORKERS)
    server.wait_for("ready", "stdout")
    workers = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    asked = ("--binary", programs / "loop", "--func", "tick", "--duration", "0.1")
    done = lbtrace("attach", "--pid", server.pid, *follow, *asked)
    both = f"{workers[0]}, {workers[1]} are not traced: --pid {workers[0]},{workers[1]} traces them"
    assert f"\n  its children {both}\n" in done.stderr
    for worker in workers:
        os.kill(int(worker), signal.SIGKILL)


def test_all_threads_of_a_process(
    start: Start, start_lbtrace: Start, programs: Path, mode: str
) -> None:
    """Those as well that begin when the probes stand; whatever a kernel's filter makes of a pid."""
    crew = start(programs / "crew", stdin=-1)
    crew.wait_for("ready", "stdout")
    tracer = start_lbtrace("attach", "--pid", crew.pid, "--func", "work", "--mode", mode)
    tracer.wait_for("Ctrl-C ends")
    assert crew.process.communicate("\n")[0] == "41\n"
    status, out, error = tracer.finish()
    assert status == 0
    assert out.count("work(") == 41
    assert "41 calls in 5 threads of 1 process, nothing lost" in error


@pytest.mark.parametrize("binary", [(), ("--binary", "leaderless"), ("--follow",)])
def test_a_process_whose_first_thread_has_ended(
    start: Start, start_lbtrace: Start, programs: Path, mode: str, binary: tuple[str, ...]
) -> None:
    """It ends when its last thread does, and is traced until then."""
    path = programs / "leaderless"
    other = start(path, 7, stdin=-1)
    process = start(path, 5, stdin=-1)
    process.wait_for("ready", "stdout")
    status = Path(f"/proc/{process.pid}/stat").read_text()
    assert status.rpartition(")")[2].split()[0] == "Z"
    words = ("attach", "--pid", process.pid, "--func", "tick", "--mode", mode)
    tracer = start_lbtrace(*words, *binary)
    tracer.wait_for("Ctrl-C ends")
    assert other.process.communicate("\n")[0] == "ready\n"
    process.process.communicate("\n")
    returned, out, error = tracer.finish()
    assert returned == 0, error
    assert out.count("tick(") == 15
    assert "15 calls in 2 threads of 1 process, nothing lost" in error
    assert "no probes" not in error


@pytest.mark.parametrize(
    ("release", "faulty"),
    [("6.1.0-50-amd64", False), ("6.6.30", True), ("6.8.0-45-generic", True), ("6.10.1", False)]
    + [("7.2.13+deb14-cloud-amd64", False), ("something", False)],
)
def test_kernels_that_filter_by_thread(release: str, faulty: bool) -> None:
    assert filters_by_thread(release) is faulty


def test_a_container_is_shown_from_outside_and_inside(lbtrace: Run, programs: Path) -> None:
    """The first process of a pid namespace is number 1 there, and soon gone."""
    shell = ["unshare", "--pid", "--fork", programs / "loop", "0", "3"]
    done = lbtrace("attach", "--binary", programs / "loop", "--func", "tick", "--", *shell)
    assert done.returncode == 0, done.stderr
    heading = next(line for line in done.stdout.splitlines() if "──" in line)
    assert heading.endswith("── loop, 1 inside its container")
    assert int(heading.split()[0]) > 1
    assert "3 calls in 1 thread of 1 process" in done.stderr


def test_containers_within_containers(programs: Path) -> None:
    """lbtrace is in one, what it traces is there as well, or two levels further in."""
    loop = f"{programs}/loop 0 2"
    new = "unshare --pid --fork --mount-proc"
    shell = f"{new} {new} {loop}; {loop}; {new} sh -c '{loop}; {loop}'"
    words = ["attach", "--binary", programs / "loop", "--func", "tick", "--", "sh", "-c", shell]
    command = [sys.executable, "-m", "lbtrace", *map(str, words)]
    done = subprocess.run(
        [*new.split(), *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    headings = [line.split(maxsplit=1) for line in done.stdout.splitlines() if "──" in line]
    assert [heading for _, heading in headings] == [
        "── loop, 1 inside its container",
        "── loop",
        "── loop, 2 inside its container",
        "── loop, 3 inside its container",
    ]
    # As the namespace of lbtrace counts: it is the first process, and starts few.
    numbers = [int(number) for number, _ in headings]
    assert sorted(set(numbers)) == numbers
    assert numbers[0] > 1
    assert numbers[-1] < 40
    assert "8 calls in 4 threads of 4 processes" in done.stderr


def test_names_are_shown_where_they_change(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """A thread names itself; a process executes a program."""
    first, second = (programs / f"relay-{name}" for name in ("first", "second"))
    shell = f"{first} name tender; exec {first} exec {second}"
    words = ("--binary", first, "--binary", second, "--func", "work")
    environment = os.environ | {"RELAY_LOG": str(tmp_path / "log")}
    done = lbtrace("attach", *words, "--", "sh", "-c", shell, env=environment)
    assert done.returncode == 0, done.stderr
    lines = [line[20:].strip() for line in done.stdout.splitlines()[1:]]
    outermost = [s for s in lines if s.startswith("──") or (s.startswith("work@") and "n=" in s)]
    assert [s.partition(" = ")[0] for s in outermost] == [
        *("── relay-first", "work@relay-first(n=2)", "── tender", "work@relay-first(n=1)"),
        *("── relay-first", "work@relay-first(n=2)"),
        *("── relay-second", "work@relay-second(n=2)", "work@relay-second(n=1)"),
    ]


def test_a_reused_pid_is_another_process(programs: Path, tmp_path: Path) -> None:
    """The first is killed inside its calls; the kernel is made to count from there again."""
    program, log = programs / "relay-first", tmp_path / "log"
    shell = f"""
        {program} thread /nowhere & pid=$!
        until grep -q wait_here {log}; do :; done 2>/dev/null
        kill -9 $pid; wait $pid 2>/dev/null
        echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
        {program}
    """
    words = ["attach", "--binary", program, "--func", "relay", "--func", "work"]
    words += ["--func", "wait_here", "--", "sh", "-c", shell]
    command = [sys.executable, "-m", "lbtrace", *map(str, words)]
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *command],
        env=os.environ | {"RELAY_LOG": str(log)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len({line.split()[0] for line in log.read_text().splitlines()}) == 1
    lines = [line[20:] for line in done.stdout.splitlines()[1:]]
    second = lines.index("── relay-first", 1)
    open_ones = [s.lstrip("│└ ") for s in lines if s.endswith("… no return seen")]
    assert [s.partition(" ")[0].partition("(")[0] for s in open_ones] == ["wait_here", "relay"]
    assert not [s for s in lines[second:] if "no return seen" in s]
    assert lines[second + 1].startswith("relay(n=1")
    assert "in 2 threads of 2 processes" in done.stderr


def test_lbtrace_inside_a_container_sees_its_numbers(lbtrace: Run, programs: Path) -> None:
    shell = 'mount -t proc proc /proc && exec "$@"'
    trace = ["attach", "--format", "jsonl", "--func", "tick", "--", programs / "loop", 0, 3]
    from_here = lbtrace(*trace)
    assert from_here.returncode == 0
    lbtrace_here = from_here.args[: from_here.args.index("attach")]
    command = [*lbtrace_here, *map(str, trace)]
    inside = ["unshare", "--pid", "--fork", "--mount", "sh", "-c", shell, "sh", *command]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    pids = {call["pid"] for call in calls if call["type"] == "call"}
    assert len(pids) == 1
    assert 1 < pids.pop() < 30
