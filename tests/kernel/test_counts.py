"""Counting in the kernel: action ``count``, compared with what the programs log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import lbtrace
from lbtrace.bpf import objects
from lbtrace.errors import UsageError
from lbtrace.session.options import Options

Run = Callable[..., subprocess.CompletedProcess[str]]


def logged(log: Path) -> Counter[tuple[str, int]]:
    """What the program says that it has called, by function and process."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return Counter((line[2], int(line[0])) for line in lines)


def counted(rows: list[lbtrace.Count]) -> dict[tuple[str, int], int]:
    return {(row.name, row.pid): row.count for row in rows}


@pytest.mark.parametrize("words", [("threads", 6, 400), ("fork", 5, 200)])
def test_counts_are_those_of_the_program(
    programs: Path, mode: str, tmp_path: Path, words: tuple[object, ...]
) -> None:
    """Threads are preempted and migrate while they count."""
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "truth", log, *map(str, words)],
        functions="traced_*",
        action="count",
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = session.counts()
        assert counted(rows) == logged(log)
        assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)
        assert {row.binary for row in rows} == {str(programs / "truth")}
        assert session.losses().total == 0
        assert session.counts() == rows


@pytest.mark.parametrize(
    ("where", "count"), [("n > 3", 33), ("retval > 3", 20), ("n < 9 and retval > 3", 18)]
)
def test_calls_that_a_condition_holds_of(programs: Path, mode: str, where: str, count: int) -> None:
    """fib(10) calls fib(n) as often as the Fibonacci number of 11 - n says."""
    with lbtrace.trace(
        command=[programs / "fib", "10"],
        functions=["fib"],
        action="count",
        where=where,
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        assert [(row.name, row.count) for row in session.counts()] == [("fib", count)]


def test_counting_hooks_no_return_and_sends_nothing(programs: Path) -> None:
    with lbtrace.trace(
        command=[programs / "fib", "5"], functions=["fib"], action="count", returns="uretprobe"
    ) as session:
        (probe,) = session.plan.probes
        assert (probe.role, probe.source, probe.action) == ("opens", "uprobe", "count")
        assert session.counts()[0].count == 15


def test_what_has_no_room_is_reported(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "AGGREGATES", 2)
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "truth", log, "alone", "1", "50"],
        functions="traced_*",
        action="count",
    ) as session:
        rows, truth = counted(session.counts()), logged(log)
        assert len(rows) < len(truth)
        assert all(count == truth[key] for key, count in rows.items())
        missing = sum(truth.values()) - sum(rows.values())
        assert session.losses().uncounted == session.losses().events == missing


def test_counts_are_shown_while_the_trace_runs_and_recorded(
    programs: Path, tmp_path: Path, lbtrace: Run
) -> None:
    """A capture that breaks off holds those of a second before, and every format takes it."""
    capture = tmp_path / "counts.lbt"
    code = f"""
import sys
from lbtrace.api import trace
from lbtrace.capture import CaptureWriter

command = [{str(programs / "loop")!r}, "1000", "4000"]
with trace(command=command, functions=["tick"], action="count") as t:
    with open({str(capture)!r}, "wb", buffering=0) as file:
        writer = CaptureWriter(file, t.plan)
        for batch in t._session.batches():
            writer.write(batch)
            print(type(batch).__name__, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    reported = 0
    for line in process.stdout:
        reported += line.strip() == "Aggregates"
        if reported == 2:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    from lbtrace.capture import read_capture

    with read_capture(str(capture)) as read:
        (row,) = read.counts()
        assert not read.complete
        assert row.name == "tick"
        assert row.count > 10
    done = lbtrace("export", capture)
    assert done.stdout.splitlines()[-1].split() == [str(row.count), str(row.pid), "tick"]
    assert f"{row.count:,} calls counted" in done.stderr
    done = lbtrace("export", capture, "--format", "jsonl")
    record = json.loads(done.stdout.splitlines()[1])
    assert record == {
        "type": "count", "name": "tick", "binary": row.binary, "pid": row.pid, "count": row.count
    }  # fmt: skip
    for name in ("chrome", "racket"):
        assert lbtrace("export", capture, "--format", name, "--salvage").returncode == 0


def test_what_counting_cannot_do(programs: Path) -> None:
    words = {"command": [str(programs / "fib"), "5"], "functions": ["fib"]}
    with pytest.raises(UsageError, match="show no arguments"):
        lbtrace.trace(**words, action="count", arg="n")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no known depth"):
        lbtrace.trace(**words, action="count", max_depth=2)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no events"):
        lbtrace.trace(**words, action="count", options=Options(max_events=5))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'sum' is unknown"):
        lbtrace.trace(**words, action="sum")  # type: ignore[arg-type]
