"""``lbtrace count run.lbt``, ``latency run.lbt``: what is counted of a capture is what programs log
of themselves, and what the kernel would have counted."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as python
from tests.kernel.test_counts import KEYED, TYPED, Made, made_by
from tests.kernel.test_distributions import ERROR, NESTED, PARTS, TIMED, check, percentiles, ranked  # type: ignore[attr-defined]

Run = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[[str, list[str], str], Path]


PACED = r"""
#include <stdio.h>
#include <time.h>
static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
__attribute__((noipa)) long paced(long n) { return n; }
int main(void) {
	long begun[2000];
	for (int i = 0; i < 2000; i++) {
		begun[i] = now();
		paced(i);
		while (now() - begun[i] < 200000)
			;
	}
	for (int i = 0; i < 2000; i++)
		printf("%ld\n", begun[i]);
}
"""
"""Calls a function once in 0.2 ms, and prints when."""

SLACK = 2_000_000
"""ns that a call may begin after the program's own clock, where others take its processor."""

LATEST = 1 << 62


@pytest.fixture
def keyed(compiled: Compile, lbtrace: Run, tmp_path: Path) -> tuple[Path, list[Made]]:
    """A capture of three processes of eight threads, and what they log."""
    program = compiled("keyed.c", ["gcc", "-O1", "-g", "-pthread", "-D_GNU_SOURCE"], KEYED)
    capture, log = tmp_path / "run.lbt", tmp_path / "log"
    done = lbtrace("attach", "--func", "keyed", "-o", capture, "--", program, log)
    assert "nothing lost" in done.stderr
    return capture, made_by(log)


def key_of(made: Made, names: str) -> tuple[Any, ...]:
    odd = made.retval % 2 * (1 if made.retval > 0 else -1)
    own = {"func": "keyed", "comm": "keyed.c", "str(path)": made.path, "retval%2": odd}
    return tuple(own[n] if n in own else getattr(made, n) for n in names.split(","))


@pytest.mark.parametrize("by", ["path", "pid,color,n,comm", "func,tid,retval%2,str(path)"])
def test_keys_and_columns_are_those_of_the_program(keyed: tuple[Path, list[Made]], by: str) -> None:
    capture, log = keyed
    names = ["size", "n"]
    table = python.count(capture, by=by, sum=names, min=names, max=names, avg=names)
    truth: dict[tuple[Any, ...], list[Made]] = {}
    for made in log:
        truth.setdefault(key_of(made, by), []).append(made)
    assert {tuple(row.by.values()): row.count for row in table} == {
        key: len(each) for key, each in truth.items()
    }
    for row in table:
        assert [*row.by] == by.split(",")
        for name in names:
            values = [getattr(made, name) for made in truth[tuple(row.by.values())]]
            found = [row.values[f"{how}({name})"] for how in ("sum", "min", "max")]
            assert found == [sum(values), min(values), max(values)]
            assert row.values[f"avg({name})"] == sum(values) / len(values)


def test_values_are_distributed_as_the_program_logs(keyed: tuple[Path, list[Made]]) -> None:
    capture, log = keyed
    rows = python.count(capture, hist="size", where="retval > 0 and n != 2", by="n").rows
    chosen = [made for made in log if made.retval > 0 and made.n != 2]
    assert {row.by["n"] for row in rows} == {made.n for made in chosen}
    for row in rows:
        check(row, [made.size for made in chosen if made.n == row.by["n"]])
    by_process = python.count(capture, hist="n", functions="key*").rows
    assert {row.pid for row in by_process} == {made.pid for made in log}
    for row in by_process:
        check(row, [made.n for made in log if made.pid == row.pid])


def test_calls_are_chosen_as_export_does(keyed: tuple[Path, list[Made]], lbtrace: Run) -> None:
    capture, log = keyed
    thread = log[-1].tid
    assert python.count(capture, thread=thread).rows[0].count == 300
    chosen = ("--from", "1ms", "--to", "3ms", "--where", "n > 2")
    done = lbtrace("count", capture, *chosen, "--format", "json")
    exported = lbtrace("export", capture, *chosen, "--format", "jsonl").stdout
    assert sum(row["count"] for row in json.loads(done.stdout)["count"]) == exported.count('"call"')


def test_callers_change_no_table(compiled: Compile, lbtrace: Run, tmp_path: Path) -> None:
    """Calls with callers are as many, in each thread, as the program logs."""
    program = compiled("keyed.c", ["gcc", "-O1", "-g", "-pthread", "-D_GNU_SOURCE"], KEYED)
    capture = tmp_path / "run.lbt"
    words = ("--func", "keyed", "--stack", "4", "--ring-size", "64M", "-o", capture)
    done = lbtrace("attach", *words, "--", program, tmp_path / "log")
    assert "nothing lost" in done.stderr
    log = made_by(tmp_path / "log")
    exported = lbtrace("export", capture, "--format", "jsonl").stdout
    assert exported.count('"callers":') == len(log) == exported.count('"name":"run"')
    found = {tuple(r.by.values()): r.count for r in python.count(capture, by=["tid", "n"])}
    assert found == Counter((made.tid, made.n) for made in log)
    thread = log[0].tid
    found = {row.by["n"]: row.count for row in python.count(capture, by="n", thread=thread)}
    assert found == Counter(made.n for made in log if made.tid == thread)
    rows = json.loads(lbtrace("report", capture, "--by", "thread", "--format", "json").stdout)
    assert sum(row["calls"] for row in rows["rows"]) == len(log)


def test_calls_of_a_time_are_those_of_the_program(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    """Calls are chosen by when they began, whatever they are counted by."""
    program = compiled("paced.c", ["gcc", "-O1", "-g"], PACED)
    capture = tmp_path / "run.lbt"
    done = lbtrace("attach", "--func", "paced", "-o", capture, "--", program)
    begun = [int(line) for line in done.stdout.splitlines()]
    for begin, end in ((0, None), (150, None), (0, 300), (150, 300)):
        first, last = begin * 1_000_000, LATEST if end is None else end * 1_000_000
        asked = python.latency(capture, begin=first, end=None if end is None else last)
        (row,) = asked.rows
        surely = [t for t in begun if first + SLACK <= t - begun[0] <= last - SLACK]
        perhaps = [t for t in begun if first - SLACK <= t - begun[0] <= last + SLACK]
        assert len(surely) <= row.count <= len(perhaps)
        assert len(perhaps) - len(surely) <= 100


def test_all_formats_have_what_the_kernel_counts(
    programs: Path, lbtrace: Run, tmp_path: Path
) -> None:
    """Of a program whose calls are always the same."""
    capture = tmp_path / "fib.lbt"
    command = ("--", programs / "fib", "12")
    lbtrace("attach", "--func", "fib", "--func", "main", "-o", capture, *command)
    choices = (
        ("--by", "n,retval", "--sum", "n,n * 2 - 1", "--max", "retval"),
        ("--by", "func", "--hist", "n", "--where", "retval > 3 and n & 1"),
        ("--by", "k=n % 4", "--avg", "n", "--top", "2"),
        ("--by", "func", "--min", "n"),
    )
    for number, words in enumerate(choices):
        for form in ("table", "json", "csv")[: 1 if number > 1 else 3]:
            asked = ("count", "--func", "fib", *words, "--format", form)
            live = lbtrace(*asked, *command)
            later = lbtrace(asked[0], capture, *asked[1:])
            assert later.stdout == live.stdout.partition("\n")[2], words  # fib prints first
            assert later.stderr == live.stderr.removeprefix("lbtrace: ")
    done = lbtrace("count", capture, "--by", "n", "-o", tmp_path / "by.parquet")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "by.parquet").read_bytes()[:4] == b"PAR1"


def test_durations_lie_between_what_the_program_measures(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    timed = compiled("timed.c", ["gcc", "-O1", "-g", "-pthread"], TIMED)
    capture, log = tmp_path / "run.lbt", tmp_path / "log"
    lbtrace("attach", "--func", "timed", "-o", capture, "--", timed, "60", log)
    table = python.latency(capture)
    (row,) = table.rows
    pairs = [[*map(int, line.split())] for line in log.read_text().splitlines()]
    assert (row.name, row.unit, row.count) == ("timed", "ns", len(pairs))
    inner, outer = ([pair[place] for pair in pairs] for place in (0, 1))
    assert sum(inner) <= row.total <= sum(outer)
    for name, found in percentiles(row).items():
        least, most = ranked(inner, PARTS[name]), ranked(outer, PARTS[name])
        assert least * (1 - ERROR) <= found <= most * (1 + ERROR), name
    by_depth = {row.by["depth"]: row for row in python.latency(capture, by="depth")}
    assert {depth: row.count for depth, row in by_depth.items()} == dict.fromkeys(range(3), 480)
    assert sum(row.total for row in by_depth.values()) == row.total
    average = python.count(capture, avg="duration", max="duration").rows[0].values
    assert average["avg(duration)"] == row.total / row.count
    slow = python.latency(capture, slow=300_000).rows[0]
    with python.read_capture(str(capture)) as read:
        took = [call.duration or 0 for call in read.calls()]
    check(row, took)
    check(slow, [each for each in took if each > 300_000])
    done = lbtrace("latency", capture, "--slow", "300us", "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(done.stdout))
    assert (int(record["count"]), int(record["total"])) == (slow.count, slow.total)


def test_self_times_are_those_of_the_kernel(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    """Of calls that some exceptions leave, which have no duration."""
    nested = compiled("nested.cc", ["g++", "-O1", "-g", "-pthread"], NESTED)
    capture = tmp_path / "run.lbt"
    functions = [word for name in ("leaf", "thrower", "middle", "outer") for word in ("-f", name)]
    lbtrace("attach", *functions, "-o", capture, "--", nested)
    rows = {row.name: row for row in python.latency(capture)}
    assert {name: row.count for name, row in rows.items()} == {
        "outer": 12,
        "middle": 72,
        "leaf": 120,
    }
    own = {name: row.self_time or 0 for name, row in rows.items()}
    assert sum(own.values()) == rows["outer"].total
    assert own["outer"] >= 24 * 4_000_000
    assert own["middle"] >= 72 * 2_000_000
    chosen = python.latency(capture, functions="middle,outer")
    own = {row.name: row.self_time or 0 for row in chosen}
    assert sum(own.values()) == rows["outer"].total
    done = lbtrace("latency", capture)
    assert "24 calls left out, without a result or duration" in done.stderr
    assert python.count(capture, by="func").rows[2].count == 24


def test_numbers_have_the_sign_of_their_type(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    program = compiled("typed.c", ["gcc", "-O1", "-g"], TYPED)
    capture = tmp_path / "run.lbt"
    lbtrace("attach", "--func", "typed", "-o", capture, "--", program)
    unsigned, signed = [2**64 - 16 + n for n in range(10)], [n - 2**63 for n in range(10)]
    for name, values in (("u", unsigned), ("i", signed), ("retval", unsigned)):
        (row,) = python.count(capture, sum=name, min=name, max=name).rows
        assert [*row.values.values()] == [sum(values), min(values), max(values)]
        check(python.count(capture, hist=name).rows[0], values)
    assert {row.by["odd"]: row.count for row in python.count(capture, by="odd")} == {
        **{True: 5, False: 5}
    }


def test_what_a_capture_lacks_is_said(programs: Path, lbtrace: Run, tmp_path: Path) -> None:
    capture, counted = tmp_path / "run.lbt", tmp_path / "counted.lbt"
    command = ("--", programs / "fib", "5")
    lbtrace("attach", "--func", "fib", "--func", "main", "-o", capture, *command)
    lbtrace("count", "--func", "fib", "-o", counted, *command)
    for words, told in (
        (("--by", "missing"), "no call of the capture has a value called missing"),
        (("--sum", "n->key"), "record it: lbtrace attach --arg n->key"),
        (("--by", 'reg("di")'), "a capture has no registers"),
        (("--by", "n", "--hist", "n", "--sum", "n"), "--hist and --sum exclude each other"),
        (("--func", "nobody"), "no traced function is called nobody"),
        (("--interval", "1s"), "no option is called --interval"),
    ):
        done = lbtrace("count", capture, *words)
        assert (done.returncode, told in done.stderr) == (2, True), (words, done.stderr)
    done = lbtrace("count", capture, "--by", "n")
    assert "left out: main, as what was asked for is not there" in done.stderr
    done = lbtrace("latency", counted)
    assert (done.returncode, f"write: lbtrace export {counted}" in done.stderr) == (2, True)
    with pytest.raises(python.UsageError, match="command= is about a trace"):
        python.count(capture, command=["true"])
