"""``--slow``: only calls that took longer, with all below them, as a program logs them."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace.errors import UsageError

Run = Callable[..., subprocess.CompletedProcess[str]]

SERVER = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define TRACED __attribute__((noinline))
static volatile int sink;
static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
TRACED int step(int n) { return sink = n; }
TRACED int handle(int n) {
	long begun = now();
	for (int i = 0; i < n % 4; i++) step(n);
	if (n % 9 == 2) { usleep(9000); step(-n); }
	return now() - begun;
}
static void *serve(void *first) {
	int n = (long)first;
	for (int i = n; i < n + 20; i++) {
		long begun = now();
		int inside = handle(i);
		printf("%d %d %ld\n", i, inside, now() - begun);
	}
	return NULL;
}
TRACED int loop(int n) {
	for (int i = 0; i < n; i++) step(i);
	return handle(11);
}
int main(int count, char **words) {
	pthread_t threads[4];
	if (count > 1) return loop(atoi(words[1])) == 0;
	for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, serve, (void *)(i * 100));
	for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
"""


CALLERS = {"step": ("handle", "loop"), "handle": ("serve", "loop"), "loop": ("main",)}
"""What calls what there."""


def calls(text: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [record for record in records if record["type"] == "call"]


def argument(call: dict[str, Any]) -> int:
    return int(call["args"][0]["value"])


def check(found: list[dict[str, Any]], log: list[str]) -> None:
    """Requests that took longer than 5 ms by the program's own clock are shown whole."""
    taken = {int(n): (int(inside), int(outside)) for n, inside, outside in map(str.split, log)}
    slow = {argument(call) for call in found if call["name"] == "handle"}
    assert slow >= {n for n, (inside, _) in taken.items() if inside > 5_000_000}
    assert slow <= {n for n, (_, outside) in taken.items() if outside > 5_000_000}
    assert len(slow) >= 8
    steps = [argument(call) for call in found if call["name"] == "step"]
    wanted = [n for each in slow for n in [each] * (each % 4) + [-each] * (each % 9 == 2)]
    assert sorted(steps) == sorted(wanted)


def test_slow_requests_are_shown_whole(lbtrace: Run, compiled: Any, tmp_path: Path) -> None:
    """Live, captured, and chosen afterwards from a capture of all."""
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    traced = ("attach", "--func", "handle", "--func", "step")
    live = lbtrace(*traced, "--slow", "5ms", "-o", tmp_path / "x.jsonl", "--", server)
    found = calls((tmp_path / "x.jsonl").read_text())
    check(found, live.stdout.splitlines())
    every = 80 + sum(n % 4 + (n % 9 == 2) for i in range(4) for n in range(i * 100, i * 100 + 20))
    assert f"left out: {every - len(found)} calls that were not slow" in live.stderr
    capture = tmp_path / "x.lbt"
    for words, chosen in (((), ("--slow", "handle=5ms")), (("--slow", "5ms"), ())):
        done = lbtrace(*traced, *words, "-o", capture, "--force", "--", server)
        exported = lbtrace("export", capture, "--format", "jsonl", *chosen)
        check(calls(exported.stdout), done.stdout.splitlines())


def test_reports_of_slow_requests(lbtrace: Run, compiled: Any, tmp_path: Path) -> None:
    """Live, and of a capture of all: each row counts what the slow requests are made of."""
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    traced, table = ("--func", "handle", "--func", "step"), tmp_path / "x.csv"

    def count() -> list[dict[str, Any]]:
        rows = [*csv.DictReader(table.open())]
        named = [(row["name"], row["key"], int(row["calls"])) for row in rows if row["key"]]
        return [
            {"name": name, "args": [{"value": key}]}
            for name, key, calls in named
            for _ in [0] * calls
        ]

    words = ("--by", "arg:n", "--slow", "handle=5ms", "--force", "-o", table)
    done = lbtrace("report", *traced, *words, "--", server)
    check(count(), done.stdout.splitlines())
    capture = tmp_path / "x.lbt"
    done = lbtrace("attach", *traced, "-o", capture, "--", server)
    said = lbtrace("report", capture, *words).stderr
    check(count(), done.stdout.splitlines())
    assert "calls that were not slow" in said


def test_tables_of_slow_requests(lbtrace: Run, compiled: Any) -> None:
    """The same calls, counted while they are traced; those of each interval add up to all."""
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    words = ("latency", "--func", "handle", "--func", "step", "--slow", "handle=5ms", "--format")
    for more in ((), ("--by", "func"), ("--by", "func,tid", "--interval", "20ms")):
        done = lbtrace(*words, "json", *more, "--", server)
        assert " counted, nothing lost\n  left out: " in done.stderr
        log = [line for line in done.stderr.splitlines() if line.count(" ") == 2]
        log += [line for line in done.stdout.splitlines() if line[:1].isdigit()]
        logged = [[*map(int, line.split())] for line in log]
        slow, perhaps = ([n[0] for n in logged if n[by] > 5_000_000] for by in (1, 2))
        tables = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
        found = {"handle": 0, "step": 0}
        for row in [row for table in tables for row in table.get("histogram", [])]:
            found[row["by"]["func"] if more else row["name"]] += row["count"]
        steps = [sum(n % 4 + (n % 9 == 2) for n in each) for each in (slow, perhaps)]
        assert 8 <= len(slow) <= found["handle"] <= len(perhaps)
        assert steps[0] <= found["step"] <= steps[1]


def test_callers_wait_with_their_calls(lbtrace: Run, compiled: Any, tmp_path: Path) -> None:
    """Those of calls around and below slow ones, held or replayed."""
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    out = tmp_path / "out.jsonl"  # the server has a log of its own
    for more in ((), (9000,)):
        options = ("--exclude", "now", "--stack", "30", "--force", "-o", out)
        lbtrace("attach", "--slow", "5ms", *options, "--", server, *more)
        found = calls(out.read_text())
        assert len(found) > 5
        for call in found:
            assert call["callers"]["end"] == "outermost"
            names = [frame["name"] for frame in call["callers"]["frames"]]
            assert names[0] in CALLERS.get(call["name"], names)
        if not more:
            assert {call["name"] for call in found} >= {"step", "handle", "serve"}


def test_slow_calls_from_python(compiled: Any, tmp_path: Path) -> None:
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    with lbtrace.trace(
        command=["sh", "-c", f"{server} > {tmp_path}/log"],
        binary=server,
        functions="handle,step",
        slow=5_000_000,
    ) as session:
        found = [{"name": call.name, "args": [{"value": call["n"]}]} for call in session.calls()]
    check(found, (tmp_path / "log").read_text().splitlines())
    with pytest.raises(UsageError, match="slow is about calls"):
        lbtrace.trace(command=[server], functions="step", slow=5, action="count")


def test_callers_that_are_too_large_are_context(
    lbtrace: Run, compiled: Any, tmp_path: Path
) -> None:
    server = compiled("server.c", ["gcc", "-O1", "-g", "-pthread"], SERVER)
    quick = ("--exclude", "now", "--returns", "uretprobe", "--unsafe", "-o", tmp_path / "x.jsonl")
    done = lbtrace("attach", "--slow", "5ms", *quick, "--", server, 17000)
    found = calls((tmp_path / "x.jsonl").read_text())
    delayed = [call for call in found if call["name"] == "step" and call["depth"] == 2]
    assert all(call["duration"] > 5_000_000 for call in delayed)
    rest = [(call["name"], call["depth"]) for call in found if call not in delayed]
    assert rest == [("step", 3)] * 4 + [("handle", 2), ("loop", 1), ("main", 0)]
    left = f"{17000 - len(delayed):,}"
    assert f"left out: {left} calls" in done.stderr
    assert f"{left} of them were below calls of more than 16,384 calls or 1 s" in done.stderr


def test_what_does_not_combine(lbtrace: Run) -> None:
    for words in (("--max-events", "5"), ("--returns", "none")):
        done = lbtrace("attach", "--func", "f", "--slow", "5ms", *words, "--", "true")
        assert done.returncode == 2
        assert "--slow" in done.stderr
        assert words[0] in done.stderr
