"""How values and durations are distributed: action ``histogram``, ``lbtrace latency`` and
``count --hist``, compared with what programs log of themselves."""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

import pytest

import lbtrace as python
from lbtrace.bpf import aggregates, objects
from lbtrace.capture import read_capture
from lbtrace.session.options import Options
from lbtrace.tables.histogram import ERROR, PARTS, Histogram

Run = Callable[..., subprocess.CompletedProcess[str]]

TIMED = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static FILE *file;
static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
static _Thread_local long inner[4096], outer[4096], made;
__attribute__((noinline)) void timed(int depth, long wait) {
	long begun = now(), place = made++;
	while (now() - begun < wait)
		;
	if (depth) {
		long before = now();
		timed(depth - 1, wait / 2);
		outer[place + 1] = now() - before;
	}
	inner[place] = now() - begun;
}
static void *thread(void *rounds) {
	for (long i = 0; i < (long)rounds; i++) {
		long first = made, begun = now();
		timed(2, 1000 << i % 9);
		outer[first] = now() - begun;
	}
	flockfile(file);
	for (long i = 0; i < made; i++)
		fprintf(file, "%ld %ld\n", inner[i], outer[i]);
	funlockfile(file);
	return NULL;
}
int main(int count, char **words) {
	pthread_t threads[8];
	file = fopen(words[2], "w");
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, thread, (void *)atol(words[1]));
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	fclose(file);
}
"""
"""Calls that call themselves, in 8 threads. It logs of each how long it took, seen from inside
and from outside."""


NESTED = r"""
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>
#define TRACED extern "C" __attribute__((noinline))
TRACED void leaf(int us) { usleep(us); }
TRACED void thrower(int us) { leaf(us); throw std::runtime_error("x"); }
TRACED void middle(int depth) {
	usleep(1000);
	leaf(2000);
	if (depth) middle(depth - 1);
	usleep(1000);
}
TRACED void outer(int n) {
	for (int i = 0; i < n; i++) {
		leaf(500);
		try { thrower(1000); } catch (std::runtime_error &) { }
		middle(2);
		usleep(4000);
	}
}
static void *thread(void *) { for (int i = 0; i < 3; i++) outer(2); return nullptr; }
int main() {
	pthread_t threads[4];
	for (auto &each : threads) pthread_create(&each, nullptr, thread, nullptr);
	for (auto &each : threads) pthread_join(each, nullptr);
}
"""
"""Calls in calls, and some that exceptions leave, in 4 threads: ``outer`` sleeps 8 ms itself,
``middle`` 2 ms."""


def test_self_times_add_up(compiled: Callable[[str, list[str], str], Path], mode: str) -> None:
    """All time of the outermost calls is that of some call below them, or their own."""
    nested = compiled("nested.cc", ["g++", "-O1", "-g", "-pthread"], NESTED)
    with python.trace(
        command=[nested],
        functions=["leaf", "thrower", "middle", "outer"],
        action="histogram",
        arg="duration",
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = {row.name: row for row in session.table()}
    assert {name: row.count for name, row in rows.items() if row.count} == {
        **{"outer": 12, "middle": 72, "leaf": 120},
    }
    own = {name: row.self_time or 0 for name, row in rows.items()}
    assert own["leaf"] == rows["leaf"].total
    assert own["middle"] >= 72 * 2_000_000
    assert own["outer"] >= 24 * 4_000_000
    assert sum(own.values()) == rows["outer"].total


JUMPING = r"""
#include <unistd.h>
#define TRACED __attribute__((noipa)) long
static __attribute__((noipa)) long hidden(long us) { usleep(us); return us; }
static long (*volatile hook)(long) = hidden;
TRACED slept(long us) { usleep(us); return us; }
TRACED leads(long us) { usleep(1000); return slept(us); }
TRACED leads_to_hidden(long us) { usleep(500); return hidden(us); }
TRACED leads_away(long us) { usleep(500); return hook(us); }
static long (*volatile away)(long) = leads_away;
TRACED outer(long n) {
	long sum = 0;
	for (long i = 0; i < n; i++) {
		sum += leads(2000) + leads_to_hidden(1000) + slept(100);
		sum += i % 2 ? leads_away(500) : away(500);
	}
	return sum;
}
int main(void) { outer(20); return 0; }
"""
"""Calls that end in jumps: to a traced function, to one that is not, and to what nobody knows; of
the last half are seen to return."""


def test_self_times_of_calls_that_jump(
    compiled: Callable[[str, list[str], str], Path], mode: str
) -> None:
    jumping = compiled("jumping.c", ["gcc", "-O2", "-g"], JUMPING)
    with python.trace(
        command=[jumping],
        functions=["slept", "leads*", "outer"],
        action="histogram",
        arg="duration",
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = {row.name: row for row in session.table() if row.count}
        losses = session.losses()
    assert {name: row.count for name, row in rows.items()} == {
        **{"outer": 1, "leads": 20, "leads_to_hidden": 20, "slept": 40, "leads_away": 10},
    }
    assert (losses.total, losses.uncompared_tail) == (0, 10)
    total = {name: row.total for name, row in rows.items()}
    own = {name: row.self_time or 0 for name, row in rows.items()}
    assert own["slept"] == total["slept"]
    assert own["leads_to_hidden"] == total["leads_to_hidden"] >= 20 * 1_500_000
    assert own["leads"] >= 20 * 1_000_000
    assert own["leads_away"] == total["leads_away"] >= 10 * 1_000_000
    assert own["outer"] >= 10 * 1_000_000  # what is not seen to return has no time of its own
    # Probes at one instruction are not hit at once.
    assert abs(sum(own.values()) - total["outer"]) < 0.1 * total["outer"]


@pytest.fixture
def timed(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("timed.c", ["gcc", "-O1", "-g", "-pthread"], TIMED)


def percentiles(row: Histogram | dict[str, Any]) -> dict[str, int]:
    return {name: row[name] if isinstance(row, dict) else getattr(row, name) for name in PARTS}


def ranked(values: list[int], part: float) -> int:
    return sorted(values)[max(1, ceil(part * len(values))) - 1]


def check(row: Histogram, values: list[int]) -> None:
    """That a row is what these values make, its percentiles but for the error of buckets."""
    assert (row.count, row.total, row.unread) == (len(values), sum(values), 0)
    for name, found in percentiles(row).items():
        truth = ranked(values, PARTS[name])
        assert abs(found - truth) <= (abs(truth) * ERROR if abs(truth) > 127 else 0), name
    for bar in row.bars:
        assert bar.count == sum(bar.low <= value <= bar.high for value in values)
    assert sum(bar.count for bar in row.bars) == row.count


@pytest.mark.parametrize("words", [("threads", 8, 300), ("fork", 4, 100)], ids=str)
@pytest.mark.parametrize(("function", "value"), [("wide", "retval"), ("recursive", "weight")])
def test_values_are_those_that_the_program_logs(
    programs: Path, mode: str, tmp_path: Path, words: tuple[Any, ...], function: str, value: str
) -> None:
    """Results of all 64 bits, and negative arguments of calls that call themselves."""
    log = tmp_path / "log"
    with python.trace(
        command=[programs / "truth", log, *map(str, words)],
        functions=f"traced_{function}",
        action="histogram",
        arg=value,
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = session.table()
        assert session.losses().total == 0
    logged: dict[int, list[int]] = {}
    for line in log.read_text().splitlines():
        pid, _, name, *numbers = line.split()
        if name == f"traced_{function}":
            number = int(numbers[0 if value == "retval" else 2])
            logged.setdefault(int(pid), []).append((number + 2**63) % 2**64 - 2**63)
    assert {row.pid for row in rows} == logged.keys()
    for row in rows:
        assert row.unit == ""
        check(row, logged[row.pid])


def check_durations(program: Path, log: Path, mode: str | None) -> None:
    with python.trace(
        command=[program, "60", log],
        functions="timed",
        action="histogram",
        arg="duration",
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        (row,) = session.table()
        assert session.losses().total == 0
    pairs = [[*map(int, line.split())] for line in log.read_text().splitlines()]
    assert (row.name, row.unit, row.unread) == ("timed", "ns", 0)
    assert row.count == len(pairs) == 8 * 60 * 3
    inner, outer = ([pair[place] for pair in pairs] for place in (0, 1))
    assert sum(inner) <= row.total <= sum(outer)
    for name, found in percentiles(row).items():
        least, most = ranked(inner, PARTS[name]), ranked(outer, PARTS[name])
        assert least * (1 - ERROR) <= found <= most * (1 + ERROR), name


def test_durations_lie_between_what_the_program_measures(
    timed: Path, mode: str, tmp_path: Path
) -> None:
    """Of calls within calls in 8 threads."""
    check_durations(timed, tmp_path / "log", mode)


def test_old_kernels_measure_as_well(
    timed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the object without callbacks."""
    monkeypatch.setattr(objects, "finds_mappings", lambda: False)
    check_durations(timed, tmp_path / "log", None)


def test_a_capture_holds_the_answer(programs: Path, lbtrace: Run, tmp_path: Path) -> None:
    capture = tmp_path / "fib.lbt"
    done = lbtrace(
        "count", "--func", "fib", "--hist", "n", "-o", capture, "--", programs / "fib", 9
    )
    assert "109 calls counted, nothing lost" in done.stderr
    shown = lbtrace("export", capture)
    heading, row, *bars = shown.stdout.splitlines()
    assert heading.split()[:2] == ["COUNT", "TOTAL"]
    assert row.split()[:8] == ["109", "221", "0", "1", "5", "8", "9", "9"]
    assert len(bars) == 5
    assert "█" in bars[0]
    record = json.loads(lbtrace("export", capture, "--format", "jsonl").stdout.splitlines()[1])
    assert (record["type"], record["count"], len(record["bars"])) == ("histogram", 109, 5)
    with read_capture(str(capture)) as read:
        assert read.table()[0].p90 == 5


def test_what_has_no_room_is_lost(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "BUCKETS", 2)
    with python.trace(
        command=[programs / "fib", "9"], functions="fib", action="histogram", arg="n"
    ) as session:
        (row,) = session.table()
        assert row.count + session.losses().uncounted == 109
        assert session.losses().uncounted > 0


def test_values_that_cannot_be_read_are_told(programs: Path) -> None:
    with python.trace(
        command=[programs / "fib", "9"], functions="fib", action="histogram", arg="*(int *)(long)n"
    ) as session:
        (row,) = session.table()
    assert (row.count, row.unread, row.median, row.bars) == (0, 109, None, ())


def test_count_is_a_command(programs: Path, lbtrace: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ("--", programs / "truth", log, "threads", "8", "50")
    done = lbtrace("count", "--func", "traced_*", "--top", "2", *command)
    assert [line.split()[::2] for line in done.stdout.splitlines()[:2]] == [
        ["COUNT", "FUNCTION"],
        [str(log.read_text().count(" traced_recursive ")), "traced_recursive"],
    ]
    assert done.stdout.splitlines()[3:] == ["and 4 more"]
    assert "calls counted, nothing lost" in done.stderr
    done = lbtrace(
        "count", "--func", "traced_*", "--where", "retval < 0", "--format", "csv", *command
    )
    assert done.stdout.splitlines()[0] == "name,binary,pid,count"


def test_a_terminal_shows_the_table_of_now_and_at_ctrl_c_the_last(
    programs: Path, start: Callable[..., Any], start_lbtrace: Callable[..., Any]
) -> None:
    program = start(programs / "loop", "100000", "1000")
    terminal, other = pty.openpty()
    traced = start_lbtrace(
        *("latency", "--func", "tick", "--pid", program.pid, "--interval", "100ms"),
        stdout=other,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(other)
    shown = b""
    while shown.count(b"\x1b[J") < 3:
        shown += os.read(terminal, 1 << 16)
    traced.process.send_signal(signal.SIGINT)
    with suppress(OSError):  # its other end is closed
        while more := os.read(terminal, 1 << 16):
            shown += more
    os.close(terminal)
    status, _, err = traced.finish()
    *_, last = shown.decode().split("\x1b[J")
    heading, row, *_ = last.splitlines()
    assert (status, heading.split()[0]) == (0, "COUNT")
    assert row.split()[-2:] == [str(program.pid), "tick"]
    assert f"{int(row.split()[0]):,} calls counted, nothing lost" in err


def test_intervals_are_what_each_has_added(
    programs: Path, start: Callable[..., Any], start_lbtrace: Callable[..., Any]
) -> None:
    program = start(programs / "loop", "100000", "1000")
    traced = start_lbtrace(
        *("count", "--func", "tick", "--pid", program.pid, "--by", "n % 2", "--sum", "1 * n"),
        *("--interval", "200ms", "--duration", "1s", "--format", "json"),
    )
    status, out, err = traced.finish()
    *intervals, last = map(json.loads, out.splitlines())
    assert (status, last) == (0, {"lost": {}})
    assert len(intervals) > 1
    assert [each["time"] for each in intervals] == sorted(each["time"] for each in intervals)
    counts = [row["count"] for each in intervals for row in each["count"]]
    assert f"{sum(counts):,} calls counted, nothing lost" in err


NESTED_FOREVER = r"""
#define APART __attribute__((noipa))
APART void leaf(void) { }
APART void middle(void) { leaf(); leaf(); }
APART void outer(void) { middle(); leaf(); }
int main(void) { for (;;) outer(); }
"""


def test_intervals_have_times_of_calls_themselves(
    compiled: Callable[[str, list[str], str], Path],
    start: Callable[..., Any],
    lbtrace: Run,
    mode: str,
) -> None:
    """Though calls come while the kernel's counts are read."""
    running = start(compiled("nested.c", ["gcc", "-O1", "-g"], NESTED_FOREVER))
    options = ["--mode", mode, "--interval", "50ms", "--duration", "1s", "--format", "json"]
    functions = ["--func", "leaf", "--func", "middle", "--func", "outer"]
    done = lbtrace("latency", *functions, "--pid", running.pid, *options)
    *intervals, _ = map(json.loads, done.stdout.splitlines())
    rows = [row for each in intervals for row in each["histogram"]]
    assert len(rows) > 20
    for row in rows:
        if row["name"] == "leaf":
            assert row["self_time"] == row["total"]
        else:
            assert 0 < row["self_time"] < row["total"]


SLOW = r"""
#include <unistd.h>
#define APART __attribute__((noipa))
APART void inner(int n) { usleep(n); }
APART void work(int n) { inner(n); __asm__ volatile(""); }
int main(void) { for (int n = 0; n < 12; n++) work(n % 3 ? 100 : 120000 + n); }
"""


def test_slow_calls_alone(
    compiled: Callable[[str, list[str], str], Path], lbtrace: Run, tmp_path: Path
) -> None:
    program = compiled("slow.c", ["gcc", "-O1", "-g"], SLOW)

    def latency(*words: str) -> dict[str, Any]:
        traced = ("--func", "work", "--func", "inner", "--slow", "110ms", *words)
        done = lbtrace("latency", *traced, "--format", "json", "--", program)
        return {row["name"]: row for row in json.loads(done.stdout)["histogram"]}

    rows = latency()
    assert {name: row["count"] for name, row in rows.items()} == {"work": 4, "inner": 4}
    assert min(row["min"] for row in rows.values()) > 110_000_000
    assert rows["work"]["self_time"] == rows["work"]["total"] - rows["inner"]["total"]
    rows = latency("--where", "n == 120000 or n > 120005", "--hist", "n")
    assert {name: row["total"] for name, row in rows.items()} == dict.fromkeys(
        ("work", "inner"), 3 * 120000 + 6 + 9
    )
    table = python.latency(
        command=[program], functions=["work", "inner"], slow=110_000_000, where="n != 120000"
    ).wait()
    found = {row.name: row for row in table}
    assert {name: row.count for name, row in found.items()} == {"work": 3, "inner": 3}
    assert min(row.min for row in found.values()) > 110_000_000
    done = lbtrace("latency", "--func", "work", "--slow", "5ms", "--where", "n =", "--", program)
    assert done.stderr.startswith("  n =\n    ^\n")


def test_tracepoints_are_counted(programs: Path, lbtrace: Run) -> None:
    done = lbtrace(
        *("count", "--tracepoint", "sched:sched_process_exit", "--format", "json"),
        *("--func", "fib", "--", programs / "fib", 5),
    )
    counted = {
        row["name"]: row["count"] for row in json.loads(done.stdout.splitlines()[-1])["count"]
    }
    assert counted == {"fib": 15, "sched:sched_process_exit": 1}


def test_parquet_has_columns_with_types(programs: Path, lbtrace: Run, tmp_path: Path) -> None:
    from pyarrow import parquet

    made, listed, command = (
        tmp_path / "a.parquet",
        tmp_path / "a.csv",
        ("--", programs / "fib", 9),
    )
    select = ("count", "--func", "fib", "--by", "n", "--avg", "n")
    for path in (made, listed):
        lbtrace(*select, "-o", path, *command)
    table = parquet.read_table(made)
    assert [str(column) for column in table.schema.types] == ["int64", "int64", "double"]
    rows = [[*map(str, row.values())] for row in table.to_pylist()]
    assert [table.column_names, *rows] == [*csv.reader(listed.read_text().splitlines())]

    lbtrace("latency", "--func", "fib", "--interval", "10s", "-o", made, "--force", *command)
    (row,) = parquet.read_table(made).to_pylist()
    assert (row["name"], row["count"], row["unit"]) == ("fib", 109, "ns")


def test_parquet_needs_its_extra(programs: Path, lbtrace: Run, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    none, command = tmp_path / "none.parquet", ("--", programs / "fib", 9)
    done = lbtrace(
        "count", "--func", "fib", "-o", none, *command, env=os.environ | {"PYTHONPATH": path}
    )
    assert (done.returncode, done.stdout, none.exists()) == (1, "", False)
    assert done.stderr.splitlines() == [
        "lbtrace: pyarrow is not installed, or cannot be imported",
        "  pip install 'lbtrace[arrow]'",
    ]


LARGE = r"""
#include <stdint.h>
#include <stdio.h>
#define TRACED __attribute__((noipa))
TRACED uint64_t wide(uint64_t u, int64_t i, int n) { return u - n; }
int main(void) {
	static const uint64_t values[] = {UINT64_MAX, 1000000000000000000, INT64_MAX, 1ull << 63, 7};
	unsigned __int128 us = 0, results = 0;
	__int128 is = 0;
	for (int n = 0; n < 15000; n++) {
		uint64_t u = values[n % 5];
		int64_t i = n % 2 ? -(int64_t)(u >> 1) - 1 : (int64_t)(u >> 1);
		us += u;
		is += i;
		results += wide(u, i, n);
	}
	/* 32 bits at a time, as printf has no 128 */
	printf("%llu %llu %lld %llu %llu %llu\n", (long long)(us >> 32), (long long)(uint32_t)us,
		(long long)(is >> 32), (long long)(uint32_t)is, (long long)(results >> 32),
		(long long)(uint32_t)results);
}
"""
"""It prints the sums of large arguments and results, as two numbers each: 32 bits, and the rest."""


@pytest.mark.parametrize("by", [(), ("--by", "func")], ids=["by process", "by function"])
def test_totals_of_large_values_are_exact(
    compiled: Callable[[str, list[str], str], Path], lbtrace: Run, by: tuple[str, ...]
) -> None:
    program = compiled("large.c", ["gcc", "-O1", "-g"], LARGE)
    for place, name in enumerate(("u", "i", "retval")):
        words = ("count", "--func", "wide", "--hist", name, *by, "--format", "json")
        done = lbtrace(*words, "--", program)
        truth, shown = done.stdout.split("\n", 1)
        high, low = map(int, truth.split()[2 * place : 2 * place + 2])
        (row,) = json.loads(shown)["histogram"]
        assert (row["count"], row["total"]) == (15000, (high << 32) + low), name
