"""Processes of a control group, and all of the machine: what is shown is theirs, by what they say
of themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from time import sleep
from typing import Any

import pytest

from lbtrace.bpf.features import has_cookies

SAYS = "echo $$; read line; echo two; exec echo three"
"""Says its number at once, and more once it reads a line: by the same process."""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A cgroup with one inside of it, as systemd's slices have."""
    root = tmp_path / "cgroups"
    root.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
    made = root / f"lbtrace-{os.getpid()}.slice"
    (made / "inner.service").mkdir(parents=True)
    yield made
    for each in (made / "inner.service", made):
        while "populated 1" in (each / "cgroup.events").read_text():
            sleep(0.01)
        each.rmdir()
    subprocess.run(["umount", root], check=True)


def start_in(start: Callable[..., Any], group: Path, *words: object) -> Any:
    """Start a program in a cgroup."""
    enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    return start("sh", "-c", enter, "sh", *words, stdin=subprocess.PIPE)


def traced(tracer: Any, output: Path) -> Counter[int]:
    """How many calls of each process a trace shows that ends now."""
    tracer.process.send_signal(signal.SIGINT)
    status, _, said = tracer.finish()
    assert status == 0, said
    records = map(json.loads, output.read_text().splitlines())
    return Counter(record["pid"] for record in records if record["type"] == "call")


def test_functions(
    programs: Path, start: Any, start_lbtrace: Any, group: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    which = ("--cgroup", group, "--binary", programs / "fib", "--func", "fib")
    tracer = start_lbtrace("attach", *which, "-o", output)
    tracer.wait_for("Ctrl-C ends")
    inside = start_in(start, group / "inner.service", programs / "fib", 4)
    outside = start(programs / "fib", 3)
    inside.finish(), outside.finish()
    assert traced(tracer, output) == {inside.pid: 9}


@pytest.mark.parametrize("every", [False, True])
def test_system_calls(
    start: Any, start_lbtrace: Any, group: Path, tmp_path: Path, every: bool
) -> None:
    output = tmp_path / "out.jsonl"
    inside = start_in(start, group / "inner.service", "sh", "-c", SAYS)
    outside = start("sh", "-c", SAYS, stdin=subprocess.PIPE)
    for each in (inside, outside):
        each.wait_for(str(each.pid), "stdout")
    which = ["--all"] if every else ["--cgroup", group.name]
    tracer = start_lbtrace("attach", *which, "--syscall", "write", "-o", output)
    if not has_cookies():
        assert "are not seen by kernels before 5.15" in tracer.finish()[2]
    else:
        tracer.wait_for("Ctrl-C ends")
    for each in (inside, outside):
        each.process.communicate("\n")
    if not has_cookies():
        return
    found = traced(tracer, output)
    assert found[inside.pid] == 2
    assert found[outside.pid] == (2 if every else 0)
    assert tracer.pid not in found  # which has written all this
    assert every or found.keys() == {inside.pid}


@pytest.mark.host
def test_errors(lbtrace: Callable[..., CompletedProcess[str]], group: Path) -> None:
    def said(*words: object) -> str:
        done = lbtrace("attach", "--syscall", "openat", *words)
        assert done.returncode, done
        return done.stderr

    assert "--cgroup /proc: is no cgroup of version 2\n  name a directory" in said(
        *("--cgroup", "/proc", "--dry-run")
    )
    assert "--cgroup and --all exclude each other" in said("--cgroup", group, "--all")
    assert "--pid and --all exclude each other" in said("--pid", 1, "--all")
    assert "--all and a command exclude" in said("--all", "--", "true")
    assert "--pid, a command, --cgroup, or --all" in said()
