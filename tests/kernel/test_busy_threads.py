"""Eight threads that call as fast as they can: what is lost is counted, and is little."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lbtrace.bpf.features import has_cookies, preempts_tracepoints

Run = Callable[..., "CompletedProcess[str]"]
ENTRIES = ("attach", "--func", "named", "--returns", "none")
LENGTHS = pytest.mark.parametrize("longest", [64, 1000])
"""Of strings: short ones take as much room either way."""

SECONDS = 0.125


def made_by(done: CompletedProcess[str]) -> int:
    """How many calls the program made; it says how many a second."""
    assert done.returncode == 0, done.stderr
    return next(int(int(n) * SECONDS) for n in done.stderr.splitlines() if n.isdigit())


@LENGTHS
def test_each_call_is_shown_or_counted(lbtrace: Run, programs: Path, longest: int) -> None:
    """Each thread gives its calls the names 0, 1, 2 and so on."""
    command = ("--", programs / "pace", "named", 0, 8, SECONDS)
    done = lbtrace(*ENTRIES, "--strings", longest, "--format", "jsonl", *command)
    shown: dict[int, list[int]] = {}
    lost: Counter[int] = Counter()
    *found, summary = (json.loads(line) for line in done.stdout.splitlines() if line[0] == "{")
    for record in found:
        if record["type"] == "call":
            name = record["args"][0]["value"]
            shown.setdefault(record["tid"], []).append(int(name.removeprefix("name ")))
        elif record["type"] == "loss":
            lost[record["tid"]] += record["entries"]
    assert len(shown.keys() | lost.keys()) == 8
    for tid, numbers in shown.items():
        assert numbers == sorted(set(numbers))  # also where it went from one processor to another
        assert numbers[-1] + 1 - len(numbers) <= lost[tid]
    assert sum(map(len, shown.values())) + lost.total() == made_by(done)
    assert lost.total() == summary["lost"]["ring_full_entry"]


@pytest.mark.host  # elsewhere a second processor may be missing
@pytest.mark.parametrize(("format", "longest"), [("tree", 64), ("tree", 1000), ("lbt", 1000)])
def test_little_is_lost(
    lbtrace: Run, programs: Path, tmp_path: Path, format: str, longest: int
) -> None:
    """The reader is woken when the ring fills, and is back before it is full."""
    output = tmp_path / "output"
    command = ("--", programs / "pace", "named", 0, 8, SECONDS)
    words = ("--strings", longest, "--format", format, "-o", output, *command)
    done = lbtrace(*ENTRIES, *words)
    lost = [line for line in done.stderr.splitlines() if "the ring was full" in line]
    count = int(lost[0].rpartition(":")[2].replace(",", "")) if lost else 0
    assert count <= 0.25 * made_by(done), done.stderr


def test_texts_that_wait_for_the_result(lbtrace: Run, programs: Path) -> None:
    """Entries that are kept until a condition on their returns is known."""
    options = ("--func", "named", "--strings", 1000, "--depth", 1, "--where", "retval >= 110")
    command = ("--", programs / "pace", "named", 2000, 1, SECONDS)
    done = lbtrace("attach", *options, "--format", "jsonl", *command)
    records = (json.loads(line) for line in done.stdout.splitlines() if line[0] == "{")
    names = [each["args"][0]["value"] for each in records if each["type"] == "call"]
    assert names == [f"name {n}" for n in range(made_by(done))]


def test_system_calls_are_counted(lbtrace: Run, programs: Path) -> None:
    """From 7.0 on the kernel skips a tracepoint's program while another thread is preempted in it:
    its backup programs count most of these calls, and what all of them miss is said."""
    command = (programs / "pace", "system", 0, 8, SECONDS)
    done = lbtrace("count", "--syscall", "getppid", "--", *command)
    if not has_cookies():
        assert "not seen by kernels before 5.15" in done.stderr
        return
    counted = int(done.stdout.splitlines()[1].split()[0])
    made = made_by(done)
    missed = [line for line in done.stderr.splitlines() if "a probe hit inside a probe" in line]
    told = int(missed[0].rpartition(":")[2].replace(",", "")) if missed else 0
    assert 0.75 * made < counted <= made <= counted + told, done.stderr
    if not preempts_tracepoints(os.uname().release):
        assert counted == made
