"""What is lost is accounted for: calls made are calls shown and losses reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as api
from lbtrace import Options

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]

STARVE = """
while kill -STOP $PPID && sleep .02; kill -CONT $PPID; sleep .01; kill -0 $$
do :; done >/dev/null 2>&1 &
exec "$@"
"""
"""Halts its parent, again and again, for as long as the command runs."""


def starving(program: Path, *words: object) -> tuple[object, ...]:
    """What to trace such that the reader falls behind on a machine however fast or idle."""
    return ("--binary", program, "--", "sh", "-c", STARVE, "sh", program, *words)


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("options", [("--returns", "uretprobe", "--unsafe"), ()])
def test_overload(lbtrace: Run, programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Four threads against a ring of 32 events; the program says what it called."""
    log = tmp_path / "log"
    done = lbtrace(
        *("attach", "--func", "traced_*", "--ring-size", "4K", "--strict", *options),
        *("--format", "jsonl", "--args", "1"),
        *starving(programs / "exact-harmless", log, "busy", 4000),
    )
    assert done.returncode == 3, done.stderr
    lines = [line.split() for line in log.read_text().splitlines()]
    made = Counter(int(line[1]) for line in lines)
    possible = {tuple(line[2:5]) for line in lines}
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    returned = others_lost = 0
    *found, summary = records(done.stdout)
    for record in found:
        if record["type"] == "call":
            shown[record["tid"]] += 1
            if record["end"] == "returned":
                returned += 1
                argument = record["args"][0]["value"]
                assert (record["name"], str(argument), str(record["result"])) in possible
            else:
                assert record["end"] == "open"
        elif record["type"] == "loss":
            lost[record["tid"]] += record["entries"]
            others_lost += record["count"] - record["entries"]
    assert len(made) == 4
    assert shown + lost == made
    assert sum(lost.values()) == summary["lost"]["ring_full_entry"] > 0
    returns_lost = summary["lost"]["ring_full_return"]
    assert 0 < returns_lost <= sum(made.values()) - returned
    # among the others are forks of the shell, if another trace probes what it runs
    assert others_lost == returns_lost + summary["lost"]["ring_full_point"]
    assert summary["calls"] == sum(shown.values())


@pytest.mark.parametrize("words", [("fibers", 9000), ("exact-O2", "contexts", 9000)])
def test_overload_on_several_stacks(
    lbtrace: Run, programs: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """What a thread loses may concern each of its stacks, and where it runs: no call has
    the result of another one, and none counts as left that returned."""
    log = tmp_path / "log"
    program, *rest = words
    done = lbtrace(
        *("attach", "--func", "traced_*", "--ring-size", "4K", "--format", "jsonl"),
        *("--args", "1", *starving(programs / program, log, *rest)),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in log.read_text().splitlines()]
    possible = {tuple(line[2:5]) for line in lines}
    *found, summary = records(done.stdout)
    calls = [record for record in found if record["type"] == "call"]
    lost = sum(record["entries"] for record in found if record["type"] == "loss")
    assert len(calls) + lost == len(lines)
    assert lost == summary["lost"]["ring_full_entry"] > 0
    for call in calls:
        assert call["end"] in ("returned", "open")
        if call["end"] == "returned":
            values = (str(call["args"][0]["value"]), str(call["result"]))
            assert (call["name"], *values) in possible


def test_a_ring_that_nobody_reads(programs: Path) -> None:
    """What has no room is counted, however fast the machine."""
    loop = programs / "loop"
    options = Options(ring_size=4096)
    with api.trace(binary=str(loop), functions=["tick"], options=options) as session:
        subprocess.run([loop, "0", "2000"], check=True)
        session.stop()
        calls = list(session.calls())
        losses = session.losses()
    assert 0 < len(calls) < 100
    assert {call.name for call in calls} == {"tick"}
    assert len(calls) + losses.ring_full_entry == 2000
    returned = sum(call.end == "returned" for call in calls)
    assert returned + losses.ring_full_return == 2000
    kinds = losses.ring_full_entry, losses.ring_full_return, losses.ring_full_point
    assert losses.events == sum(kinds)


Account = tuple[Counter[int], Counter[int]]
"""For each thread, the calls shown and the calls reported as lost."""

LOST = re.compile(r"\b(\d+) events? lost here(?:, (\d+) of them (?:calls|a call))?")


def in_tree(text: str) -> Account:
    """A call begins in the one line of it that has its arguments."""
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    for line in text.splitlines():
        thread = re.match(r"(?: *\d\S* \S+)? +(\d+)  ", line)
        if thread and (loss := LOST.search(line)):
            lost[int(thread[1])] += int(loss[2] or 0)
        elif thread and re.search(r"traced_\w+\(", line):
            shown[int(thread[1])] += 1
    return shown, lost


def in_racket(text: str) -> Account:
    """Lines before the second thread is seen belong to the first."""
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    for line in text.splitlines():
        thread = re.match(r"(\d+) ", line)
        number = int(thread[1]) if thread else 0
        if loss := LOST.search(line):
            lost[number] += int(loss[2] or 0)
        elif "(traced_" in line:
            shown[number] += 1
    return shown, lost


def in_jsonl(text: str) -> Account:
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    for record in records(text):
        if record["type"] == "call":
            shown[record["tid"]] += 1
        elif record["type"] == "loss":
            lost[record["tid"]] += record["entries"]
    return shown, lost


def in_chrome(text: str) -> Account:
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        if event["ph"] in "BX":
            shown[event["tid"]] += 1
        elif event["ph"] == "i":
            lost[event["tid"]] += event["args"]["entries"]
    assert trace["otherData"]["lost"]["ring_full_entry"] == sum(lost.values())
    return shown, lost


FORMS = {"tree": in_tree, "racket": in_racket, "jsonl": in_jsonl, "chrome": in_chrome}


def check(form: str, text: str, made: Counter[int]) -> None:
    shown, lost = FORMS[form](text)
    seen = shown + lost
    if form == "racket" and (unnamed := seen.pop(0, 0)):
        first = [thread for thread in made if made[thread] - seen[thread] == unnamed]
        assert len(first) == 1
        seen[first[0]] += unnamed
    assert seen == made
    assert sum(lost.values()) > 0


@pytest.mark.parametrize("form", FORMS)
def test_every_format_says_what_is_missing(
    lbtrace: Run, programs: Path, tmp_path: Path, form: str
) -> None:
    """Live, and from a capture: of each of 24 threads no call is unaccounted for."""
    log = tmp_path / "log"
    trace = ("attach", "--func", "traced_*", "--ring-size", "4K", "--args", "1")
    for through in (tmp_path / "live", tmp_path / "run.lbt"):
        log.unlink(missing_ok=True)
        done = lbtrace(
            *(*trace, "--format", form if through.name == "live" else "lbt", "-o", through),
            *starving(programs / "exact-O2", log, "busy", 150, 24),
        )
        assert done.returncode == 0, done.stderr
        assert "the ring was full" in done.stderr
        made = Counter(int(line.split()[1]) for line in log.read_text().splitlines())
        assert len(made) == 24
        if through.name == "live":
            check(form, through.read_text(), made)
        else:
            exported = lbtrace("export", through, "--format", form)
            assert "the ring was full" in exported.stderr
            check(form, exported.stdout, made)


def check_without_counts(lbtrace: Run, capture: Path) -> None:
    """An interrupted capture counts as lost what its threads reported, and says that it need not be
    all."""
    exported = lbtrace("export", capture, "--format", "jsonl")
    *found, summary = records(exported.stdout)
    lost = [record for record in found if record["type"] == "loss"]
    assert summary["interrupted"]
    assert summary["lost_known"] is False
    assert sum(record["entries"] for record in lost) == summary["lost"]["ring_full_entry"]
    count = sum(record["count"] for record in lost)
    assert count == sum(summary["lost"].values()) > 0
    assert f"at least {count:,} event" in exported.stderr


def test_lbtrace_is_killed(
    start_lbtrace: Start,
    lbtrace: Run,
    programs: Path,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    tracer = start_lbtrace(
        *("attach", "--func", "traced_*", "--ring-size", "4K", "--args", "1", "-o", capture),
        *starving(programs / "exact-harmless", log, "busy", 4000),
    )
    eventually(lambda: capture.exists() and capture.stat().st_size > 200_000)
    tracer.process.kill()
    tracer.process.wait()
    check_without_counts(lbtrace, capture)


@pytest.mark.slow
def test_memory_stays_bounded(programs: Path, tmp_path: Path) -> None:
    """500 MB of events, faster than they can be written."""
    log, said = tmp_path / "log", tmp_path / "said"
    words = ["attach", "--func", "traced_*", "--format", "jsonl", "-o", "/dev/null", "--args", "1"]
    words += ["--returns", "uretprobe", "--unsafe", "--", programs / "exact-harmless", log]
    words += ["busy", "150000", "6"]
    most = 0
    with said.open("w") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "lbtrace", *words], stderr=stderr)
        while process.poll() is None:
            # What wait4 tells counts the test run's own memory, which vfork shares until exec.
            high = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            most = max(most, int(high[1])) if high else most
            time.sleep(0.1)
    error = said.read_text()
    assert process.returncode == 0, error
    with log.open() as lines:
        made = sum(1 for _ in lines)
    assert made * 2 * 96 > 500 << 20
    shown = int(re.findall(r"([\d,]+) calls in", error)[0].replace(",", ""))
    lost = re.findall(r"the ring was full \(entries\): ([\d,]+)", error)
    assert shown + sum(int(number.replace(",", "")) for number in lost) == made
    assert 0 < most < 450 << 10  # KiB


@pytest.mark.parametrize(("output", "events", "threads"), [("", 5, 4), ("x.lbt", 10, 1)])
def test_what_is_lost_after_the_last_event_does_not_count(
    lbtrace: Run, programs: Path, tmp_path: Path, output: str, events: int, threads: int
) -> None:
    """While probes are detached the ring fills, which has room for 20 entries and returns of these
    functions: nothing of the rest was asked for."""
    done = lbtrace(
        *("attach", "--func", "traced_*", "--ring-size", "4K", "--strict", "--max-events"),
        *(events, "--mode", "plain", "--kill", *(("-o", tmp_path / output) if output else ())),
        *("--", programs / "exact-harmless", tmp_path / "log", "busy", 100000, threads),
    )
    assert done.returncode == 0, done.stderr
    assert "nothing lost" in done.stderr
