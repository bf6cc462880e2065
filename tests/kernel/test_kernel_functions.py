"""Functions of the kernel: their prototypes, and, where the kernel takes kprobes, their calls below
those that led there."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen
from typing import Any

import pytest

from lbtrace import trace
from lbtrace.bpf.attach.kernel_plain import PMU
from lbtrace.bpf.features import has_cookies, preempts

Run = Callable[..., CompletedProcess[str]]

KPROBES = Path(PMU).exists() and has_cookies()
"""Whether this kernel takes them, for lbtrace."""

PATH = (
    ("save", "opens"),
    ("save", "put", "write", "vfs_write"),
    ("save", "put", "fsync", "noop_fsync"),
    ("save", "vfs_unlink"),
)
"""Which calls led to functions of the kernel; what opens files has another name from 7.0 on. In 7.2
the compiler has inlined vfs_fsync_range() where it is called; what /tmp has for it is called by a
pointer."""


def paths(calls: list[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """The calls by the names of those around them, whose times they must be within."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for call in calls:
        around = [
            other
            for other in calls
            if other["depth"] < call["depth"]
            and other["start"] <= call["start"]
            and call["start"] + call["duration"] <= other["start"] + other["duration"]
        ]
        around.sort(key=lambda other: int(other["depth"]))
        assert [other["depth"] for other in around] == [*range(call["depth"])], call
        found.setdefault((*(other["name"] for other in around), call["name"]), []).append(call)
    return found


def refuses(done: CompletedProcess[str]) -> bool:
    """Whether this kernel takes no kprobes, which is said then."""
    if KPROBES:
        return False
    why = "refuses probes in its own functions" if has_cookies() else "does not tell which of its"
    assert (done.returncode, done.stdout) == (1, ""), done
    first, *_, last = done.stderr.splitlines()
    assert why in first  # and no note before it
    assert last.startswith("  use ")
    return True


def test_calls_nest(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    program = [programs / "save", saved]
    chosen = [
        *("--func", "save", "--func", "put", "--syscall", "write,fsync", "--format", "jsonl"),
        *("--kernel", "vfs_write,noop_fsync,vfs_unlink,do_fil[ep]_open"),
    ]
    done = lbtrace("attach", *chosen, "--", *program)
    if refuses(done):
        assert not saved.exists()
        return
    assert "nothing lost" in done.stderr
    # The program writes there as well.
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    calls = [each for each in records if each["type"] == "call" and "duration" in each]
    for call in calls:
        call["name"] = re.sub("do_fil[ep]_open", "opens", call["name"])
    inside = paths(calls)
    assert inside.keys() >= {*PATH}
    written = inside["save", "put", "write", "vfs_write"]
    assert [call["result"] for call in written] == [15, 15, 15]
    assert [call["args"][2] for call in written] == [{"name": "count", "value": 15}] * 3
    options = ["--arg", "file->f_path.dentry->d_name.name", "--where", "count == 15"]
    done = lbtrace("attach", "--kernel", "vfs_write", *options, "--", *program)
    assert done.stdout.count('vfs_write(file->f_path.dentry->d_name.name="saved") = 15') == 3


def test_places(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """Inside of a function, after what the kernel's own tracer has patched, and before anything
    else: there the registers hold the arguments."""
    program = [programs / "save", tmp_path / "saved"]
    count, after = ("dx", (5, 9)) if os.uname().machine == "x86_64" else ("x2", (12,))
    chosen = ["--func", "put", "--kernel", "vfs_write", "--arg", count, "--where", f"{count} == 15"]
    for offset in after:  # with what marks the targets of jumps, it is the second
        place = f"vfs_write+{offset:#x}"
        done = lbtrace("attach", "--kernel", place, *chosen[4:], "--", *program)
        if refuses(done):
            return
        if done.returncode == 0:
            break
        assert "there begins no instruction" in done.stderr
    assert done.stdout.count(f"· {place} {count}=15") == 3, done
    chosen = ["--func", "put", "--kernel", f"{place},vfs_write", "--format", "jsonl"]
    done = lbtrace("attach", *chosen, "--", *program)
    items = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    calls = [each for each in items if each["type"] == "call"]
    points = [each for each in items if each["type"] == "point"]
    within = [
        {call["name"] for call in calls if call["depth"] < point["depth"] and spans(call, point)}
        for point in points
        if point["name"] == place and point["depth"] == 2
    ]
    assert within == [{"put", "vfs_write"}] * 3
    done = lbtrace("attach", "--kernel", "vfs_write+0x1", "--", *program)
    assert done.returncode == 2
    assert "vfs_write+0x1: the kernel takes no probe there" in done.stderr
    done = lbtrace("attach", "--kernel", "vfs_write+0x100000", "--", *program)
    assert "vfs_write+0x100000: vfs_write has 0x" in done.stderr


def spans(call: dict[str, Any], point: dict[str, Any]) -> bool:
    start, end = call["start"], call["start"] + call["duration"]
    return bool(start <= point["time"] <= end)


@pytest.mark.host
def test_list(lbtrace: Run) -> None:
    done = lbtrace("list", "--kernel", "vfs_f*,tcp_v4_*")
    assert done.returncode == 0
    shown = lbtrace("list", "--kernel", "vfs_f*,tcp_v4_*", "--json")
    listed = {each["name"]: each for each in json.loads(shown.stdout)}
    assert listed["vfs_fsync"]["arguments"][1] == {"name": "datasync", "type": "int"}
    assert "int vfs_fsync(struct file *file, int datasync)\n" in done.stdout
    assert len(listed) == len(done.stdout.splitlines()) > 20
    nothing = lbtrace("list", "--kernel", "vfs_raed")
    assert "vfs_raed: the kernel has no such function\n  nearest names: vfs_read" in nothing.stderr


READS = """
import ctypes, platform
from struct import pack
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
bpf = ctypes.CDLL(None).syscall
array = bpf(number, 0, pack("<IIII", 2, 4, 1 << 16, 1).ljust(128, b"\\0"), 128)
key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(1 << 16)
read = pack("<IIQQ", array, 0, ctypes.addressof(key), ctypes.addressof(value)).ljust(128, b"\\0")
print(array, flush=True)
while True:
    bpf(number, 1, read, 128)
"""
"""Another tool, which reads a map all the time."""

WRITES = """
import os, sys
sys.stdin.readline()
file = os.open("/dev/null", os.O_WRONLY)
for n in range(8000):
    os.pwrite(file, b"x", n)
"""


def test_what_another_tool_hides_is_counted() -> None:
    """Where the kernel preempts a task that reads a map, no probe of its functions runs there."""
    if not KPROBES:
        return
    begin = partial(Popen, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    with (
        begin([sys.executable, "-c", READS]) as reads,
        begin([sys.executable, "-c", WRITES]) as work,
    ):
        assert reads.stdout is not None
        assert int(reads.stdout.readline()) > 0
        with trace(kernel=["vfs_write"], pid=work.pid, args=0) as traced:
            work.stdin.write(b"\n")
            work.stdin.close()
            calls = len([*traced.calls()])
            losses = traced.losses()
        reads.kill()
    assert calls + losses.nested_miss >= 8000
    assert losses.events == losses.nested_miss
    assert not losses.nested_miss or preempts()
    print(f"{calls} calls, {losses.nested_miss} missed")
