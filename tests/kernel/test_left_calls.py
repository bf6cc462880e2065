"""Calls that exceptions or ``longjmp`` leave, or that never end, are counted where answers are
about results and durations: as many as the program says there were."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

LEFT = r"""
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>
#define TRACED extern "C" __attribute__((noipa))
static thread_local jmp_buf back;
static long left, returned;
TRACED int throws(int n) {
	if (n % 4 == 0) {
		__atomic_fetch_add(&left, 1, __ATOMIC_RELAXED);
		throw std::runtime_error("x");
	}
	__atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
	return n;
}
TRACED int middle(int n) {
	__atomic_fetch_add(n % 4 ? &returned : &left, 1, __ATOMIC_RELAXED);
	return throws(n) + 1;
}
TRACED int jumps(int n) {
	__atomic_fetch_add(n % 2 ? &left : &returned, 1, __ATOMIC_RELAXED);
	if (n % 2)
		longjmp(back, 1);
	return n;
}
TRACED int ends(int n) {
	if (n)
		return n;
	left++;
	printf("%ld %ld\n", left, returned);
	fflush(stdout);
	_exit(0);
}
static void thread(int calls) {
	for (volatile int n = 0; n < calls; n = n + 1) {
		try { middle(n); } catch (std::runtime_error &) { }
		if (!setjmp(back)) jumps(n);
	}
}
int main(int, char **words) {
	std::vector<std::thread> threads;
	for (int i = 0; i < atoi(words[2]); i++) threads.emplace_back(thread, atoi(words[1]));
	for (auto &each : threads) each.join();
	ends(0);
}
"""
"""It prints how many calls were left, and how many returned."""

ALL = ("--func", "throws,middle,jumps,ends")


@pytest.fixture
def leaving(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("leaving.cc", ["g++", "-O1", "-g", "-pthread"], LEFT)


@pytest.mark.parametrize(("calls", "threads"), [(1, 1), (2, 1), (5, 50)])
@pytest.mark.parametrize(
    "words",
    [
        ("latency",),
        ("count", "--avg", "duration"),
        ("count", "--by", "retval"),
        ("count", "--hist", "retval"),
        ("count", "--where", "retval >= 0"),
    ],
    ids=" ".join,
)
def test_as_many_are_counted_as_the_program_says(
    leaving: Path, lbtrace: Run, words: tuple[str, ...], calls: int, threads: int
) -> None:
    command, *options = words
    done = lbtrace(command, *ALL, *options, "--format", "json", "--", leaving, calls, threads)
    truth, _, shown = done.stdout.partition("\n")
    left, returned = map(int, truth.split())
    found = json.loads(shown)
    rows = found.get("count") or found.get("histogram") or []
    assert (sum(row["count"] for row in rows), found["lost"]) == (
        returned,
        {"uncompared_open": left},
    )
    assert f"{left:,} left by exceptions or still open" in done.stderr


def test_in_each_mode(leaving: Path, mode: str) -> None:
    import lbtrace as python
    from lbtrace.session.options import Options

    selected: dict[str, Any] = {
        "command": [leaving, "5", "8"],
        "functions": "throws,middle,jumps,ends",
        "options": Options(mode=mode),  # type: ignore[arg-type]
    }
    for value in ("retval", "duration"):
        table = python.count(by="func", sum=value, **selected).wait()
        counts = {row.by["func"]: row.count for row in table}
        assert counts == {"throws": 3 * 8, "middle": 3 * 8, "jumps": 3 * 8}
        assert table.losses().uncompared_open == 3 * 2 * 8 + 1  # the one is ends()


def test_calls_that_conditions_leave_out_are_not_among_them(leaving: Path, lbtrace: Run) -> None:
    """Nor does a call that was left at the same place return in their stead."""
    words = ("--func", "jumps", "--where", "n != 2", "--format", "json")
    done = lbtrace("latency", *words, "--", leaving, 5, 3)
    found = json.loads(done.stdout.partition("\n")[2])
    (row,) = found["histogram"]
    assert (row["count"], found["lost"]) == (2 * 3, {"uncompared_open": 2 * 3})
    assert row["self_time"] == row["total"]


def test_errors_shows_each_of_them_once(leaving: Path, lbtrace: Run) -> None:
    """Also those of which no landing tells, as ``longjmp`` has none."""
    done = lbtrace("attach", *ALL, "--errors", "--format", "jsonl", "--", leaving, 5, 3)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    shown = sum(line["type"] == "call" for line in lines)
    (summary,) = (line for line in lines if line["type"] == "summary")
    left = int(next(line for line in done.stdout.splitlines() if line[0] != "{").split()[0])
    assert shown + summary["lost"]["uncompared_open"] == left


def test_reports_have_their_times_until_they_were_left(leaving: Path, lbtrace: Run) -> None:
    done = lbtrace("report", *ALL, "--format", "json", "--", leaving, 5, 8)
    truth, shown = done.stdout.split("\n", 1)
    rows = json.loads(shown)["rows"]
    assert sum(row["calls"] for row in rows) == sum(map(int, truth.split()))
    assert {row["name"]: row["unended"] for row in rows if row["unended"]} == {"ends": 1}
    for row in rows:
        assert row["total"] >= row["timed"] * (row["min"] or 0)
    done = lbtrace("report", *ALL, "--top", "3", "--", leaving, 5, 8)
    assert "\nand 1 more\n1 call without an end: in CALLS, not in the times\n" in done.stdout


def test_no_exception_leaves_a_system_call(lbtrace: Run) -> None:
    """What sleeps when the trace ends has not returned."""
    words = ("latency", "--syscall", "nanosleep,clock_nanosleep", "--duration", "500ms", "--kill")
    done = lbtrace(*words, "--format", "json", "--", "sleep", "60")
    assert json.loads(done.stdout) == {"histogram": [], "lost": {"uncompared_open": 1}}
    assert "1 call left out, without a result or duration: 1 that did not return" in done.stderr
