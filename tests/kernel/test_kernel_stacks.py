"""Stacks of the kernel, with the program's below, compared with what the kernel itself says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lbtrace as python
from lbtrace.bpf.attach.kernel_plain import PMU
from lbtrace.bpf.features import finds_mappings
from lbtrace.errors import UsageError
from lbtrace.system.tracefs import find_root

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SLEEPS = ["sh", "-c", "sleep 0.3; sleep 60 & sleep 0.7; cat /proc/$!/stack; kill $!; wait"]
"""Prints the kernel's stack of a process that sleeps, without the scheduler's own functions; the
first one lets lbtrace know of the program."""


def places(frames: list[dict[str, Any]], kernel: bool = True) -> list[str]:
    """Those in the kernel, or the others, as the kernel writes places."""
    chosen = [each for each in frames if each["binary"].startswith("[") == kernel]
    return [f"{each['name']}+{each['offset']:#x}" for each in chosen]


def points(text: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, text.splitlines()) if "callers" in row]


def test_as_the_kernel_shows_a_sleeping_process(lbtrace: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    event = ["--tracepoint", "sched:sched_switch"]
    done = lbtrace("stacks", "--each", *event, "-o", out, "--", *SLEEPS)
    if not finds_mappings():
        assert "stacks need Linux 5.17" in done.stderr
        return
    assert "nothing lost" in done.stderr
    truth = re.findall(r"\] (\w+\+0x\w+)/", done.stdout)
    stacks = [row["callers"] for row in points(out.read_text())]
    found = [each for each in stacks if places(each["frames"])[-len(truth) :] == truth]
    assert "hrtimer_nanosleep" in done.stdout
    assert len(found) >= 3
    for stack in found[1:]:
        frames = stack["frames"]
        assert places(frames)[0].startswith("__schedule+")
        first = next(each for each in frames if not each["binary"].startswith("["))
        assert os.path.basename(first["binary"]).startswith("libc")
        assert any(each["binary"].endswith("/sleep") for each in frames)
        assert stack["end"] in ("outermost", "table not loaded yet")
    text = lbtrace("stacks", *event, "--format", "folded", "--", "sleep", "0.1").stdout
    assert re.search(r"do_nanosleep_\[k\];schedule_\[k\];__schedule_\[k\] ", text)


@contextmanager
def stacktraces(function: str) -> Iterator[Callable[[], str]]:
    """What the kernel's own tracer prints of calls of a function, and the stacks that led there."""
    root = Path(find_root())
    probes = os.open(root / "kprobe_events", os.O_WRONLY | os.O_APPEND)  # else it removes all
    os.write(probes, f"p:lbtrace_test/own {function}".encode())
    own = root / "instances/lbtrace-test-stacks"
    own.mkdir()
    try:
        (own / "events/lbtrace_test/own/trigger").write_text("stacktrace")
        (own / "options/sym-offset").write_text("1")
        (own / "events/lbtrace_test/own/enable").write_text("1")
        yield (own / "trace").read_text
    finally:
        (own / "events/lbtrace_test/own/enable").write_text("0")
        own.rmdir()
        os.write(probes, b"-:lbtrace_test/own")
        os.close(probes)


def test_functions_of_the_kernel(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    saved, out = tmp_path / "saved", tmp_path / "out.jsonl"
    program = ["--", programs / "save", saved]
    options = ["stacks", "--each", "--kernel", "noop_fsync", "-o", out, *program]
    if not (Path(PMU).exists() and finds_mappings()):
        reasons = r"stacks need Linux 5\.17|refuses probes in its own|use Linux 5\.15"
        assert re.search(reasons, lbtrace(*options).stderr)
        return
    with stacktraces("noop_fsync") as read:
        each = lbtrace(*options)
        traced = read()
    assert "nothing lost" in each.stderr
    truth = [
        re.findall(r"^ => ([\w.]+\+0x\w+)", stack, re.M)
        for stack in re.split(r"<stack trace>", traced)[1:]
    ]
    stacks = [row["callers"] for row in points(out.read_text())]
    assert len(stacks) == 3
    for stack in stacks:
        frames = stack["frames"]
        callers = places(frames)
        assert callers in [each[-len(callers) :] for each in truth]
        assert re.match(r"(vfs_fsync_range|do_fsync|__\w+_sys_fsync)\+", callers[0])
        if os.uname().machine == "aarch64":  # libc has no frame pointers: docs/stacks.md
            assert stack["end"] == "no table"
            continue
        names = [place.split("+")[0] for place in places(frames, kernel=False)]
        found = [n for n in names if n in ("put", "save", "main")]
        assert found == ["put", "save", "main"], stack
        assert stack["end"] == "outermost"
    if os.uname().machine == "aarch64":
        return
    shown = lbtrace("attach", "--kernel", "noop_fsync", "--stack", "30", *program).stdout
    assert len(re.findall(r"← \w*fsync\w*\+0x\w+ \[k\]\n", shown)) >= 3
    assert len(re.findall(r"← put\+0x\w+ \(save\)\n", shown)) == 3
    counted = lbtrace("stacks", "--kernel", "noop_fsync", "--sum", "retval", *program)
    assert re.search(r"^  noop_fsync \[k\]\n(  .*\n)*  put\+", counted.stdout, re.M)


def test_time_blocked(lbtrace: Run, tmp_path: Path) -> None:
    """As often as a program has slept, and about as long as it has found that to take."""
    out = tmp_path / "out.json"
    script = (
        "import time\nbegun = time.monotonic_ns()\nfor _ in range(40): time.sleep(0.01)\n"
        "print(time.monotonic_ns() - begun)"
    )
    done = lbtrace("stacks", "--off-cpu", "-o", out, "--", sys.executable, "-c", script)
    if not finds_mappings():
        assert "stacks need Linux 5.17" in done.stderr
        return
    said = r"lbtrace: \d+ stretches off the CPU counted, nothing lost\n"
    unseen = r"(  switches of threads that the kernel did not report: \d+\n)?"
    assert re.fullmatch(said + unseen, done.stderr)
    rows = json.loads(out.read_text())["stacks"]
    slept = [row for row in rows if {"hrtimer_nanosleep"} & {f["name"] for f in row["frames"]}]
    # A thread that is preempted until its time has passed was not blocked.
    assert 36 <= sum(row["count"] for row in slept) <= 40
    assert 36 * 10_000_000 <= sum(row["total"] for row in slept) <= int(done.stdout)
    assert {row["unit"] for row in slept} == {"ns"}
    assert any("libc" in f["binary"] for f in slept[0]["frames"])
    script = script.replace("0.01)", "0.012 * (_ % 2))")
    long = ("stacks", "--off-cpu", "9ms", "--format", "json", "--", sys.executable, "-c", script)
    rows = json.loads(lbtrace(*long).stdout.splitlines()[-1])["stacks"]
    assert sum(row["count"] for row in rows) >= 18
    assert min(row["total"] / row["count"] for row in rows) >= 9_000_000
    command = [sys.executable, "-c", script]
    found = python.stacks(command=command, off_cpu=9_000_000).wait().rows
    assert sum(row.count for row in found) >= 18
    assert min(row.total / row.count for row in found) >= 9_000_000
    slept = [row for row in found if "hrtimer_nanosleep" in {f.name for f in row.frames}]
    assert 18 <= sum(row.count for row in slept) <= 20
    with pytest.raises(UsageError, match="off_cpu= is about processes, and none is named"):
        python.stacks(binary="libc.so.6", off_cpu=1)
    with pytest.raises(UsageError, match=r"all that threads wait for, and functions= about calls"):
        python.stacks(command=command, functions="main", off_cpu=1)
    refused = lbtrace("stacks", "--off-cpu", "--func", "main", "--", "true")
    assert (refused.returncode, refused.stdout) == (2, "")
