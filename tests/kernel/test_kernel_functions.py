"""Functions of the kernel: their prototypes, and, where the kernel takes kprobes, their calls below
those that led there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from lbtrace.bpf.attach.kernel_plain import PMU
from lbtrace.bpf.features import has_cookies

Run = Callable[..., CompletedProcess[str]]

KPROBES = Path(PMU).exists() and has_cookies()
"""Whether this kernel takes them, for lbtrace."""

PATH = (
    ("save", "opens"),
    ("save", "put", "write", "vfs_write"),
    ("save", "put", "fsync", "vfs_fsync_range"),
    ("save", "vfs_unlink"),
)
"""Which calls led to functions of the kernel; what opens files has another name from 7.0 on."""


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
        *("--kernel", "vfs_write,vfs_fsync_range,vfs_unlink,do_fil[ep]_open"),
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
