"""From where functions are called: ``lbtrace stacks``, compared with what the program logs."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace.bpf import objects

Run = Callable[..., subprocess.CompletedProcess[str]]

FIRST = ("main", "thread")
"""What the program calls first of its own."""


def own_part(path: list[str]) -> str:
    """A path, without what calls the program."""
    return ";".join(path[next(n for n, name in enumerate(path) if name in FIRST) :])


def folded(text: str) -> Counter[str]:
    """The weights of folded stacks."""
    weights: Counter[str] = Counter()
    for line in text.splitlines():
        path, weight = line.rsplit(" ", 1)
        weights[own_part(path.split(";"))] += int(weight)
    return weights


def logged(log: Path) -> tuple[Counter[str], Counter[str]]:
    """How often the program came by each path, and with how much."""
    calls: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        size, path = line.split(" ")
        calls[path] += 1
        sizes[path] += int(size)
    return calls, sizes


def test_folded_stacks_are_those_of_the_program(
    programs: Path, tmp_path: Path, lbtrace: Run
) -> None:
    """Threads and processes that have ended when their stacks are named."""
    for name, options, number in (
        ("paths", (), 0),
        ("paths", ("--sum", "size"), 1),
        ("paths-pointers", ("--unwind", "fp"), 0),
    ):
        log = tmp_path / f"{name}{number}"
        command = ["--", programs / name, log, "500"]
        done = lbtrace("stacks", "--func", "leaf", "--format", "folded", *options, *command)
        assert folded(done.stdout) == logged(log)[number]
        assert "nothing lost" in done.stderr


def test_rows_in_each_mode(programs: Path, tmp_path: Path, mode: str) -> None:
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "paths", log, "60"],
        functions="leaf",
        action="stacks",
        options=lbtrace.Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = session.table()
    found: Counter[str] = Counter()
    for row in rows:
        found[own_part([frame.name for frame in reversed(row.frames)])] += row.count
        assert row.frames[0].name == row.name == "leaf"
        assert row.frames[0].offset == 0
        assert {f.binary for f in row.frames[:3]} == {str(programs / "paths")}
    assert found == logged(log)[0]
    assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)


def test_counts_by_stack(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    """Counts by nothing but the stack are those of ``stacks``."""
    log = tmp_path / "log"
    traced = ["--func", "leaf", "--format", "folded", "--", programs / "paths", log, "50"]
    for options, number in ((), 0), (("--sum", "size"), 1):
        log.unlink(missing_ok=True)
        done = lbtrace("count", "--by", "stack", *options, *traced)
        assert folded(done.stdout) == logged(log)[number]
    done = lbtrace("count", "--func", "leaf", "--by", "stack,pid", *traced[4:])
    assert (done.returncode, "lbtrace stacks counts by them" in done.stderr) == (2, True)


def test_results_and_captures(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    """A value of the return is that of its call, whose own frame may have gone by then."""
    for way in ("sites", "uretprobe"):
        capture = tmp_path / f"{way}.lbt"
        options = ["--func", "traceme", "--sum", "retval", "--returns", way, "-o", capture]
        lbtrace("stacks", *options, "--", programs / "trace")
        done = lbtrace("export", capture, "--format", "jsonl")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found = {
            own_part([frame["name"] for frame in reversed(row["frames"])]): row["total"]
            for row in rows
            if row["type"] == "stacks"
        }
        assert found == {"main;traceme": 33, "main;traceme2;traceme": 36}
        assert folded(lbtrace("export", capture, "--format", "folded").stdout) == found
        for command in ("export", "stacks"):
            shown = lbtrace(command, capture, "--top", "1").stdout.strip().split("\n\n")
            assert shown[0] == "1 more, none of them larger"
            assert shown[1].split()[-1] == "36"
            made = json.loads(lbtrace(command, capture, "--format", "speedscope").stdout)
            assert made["profiles"][0]["weights"] == [36, 33]
            made = json.loads(lbtrace(command, capture, "--format", "json").stdout)
            assert [row["total"] for row in made["stacks"]] == [36, 33]


def test_each_call_with_its_stack(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    log = tmp_path / "log"
    done = lbtrace("stacks", "--each", "--func", "leaf", "--", programs / "paths", log, "20")
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["TIME(s)", "CPU", "PID", "COMM", "FUNCTION"]
    found: Counter[str] = Counter()
    stack: list[str] = []
    for line in reversed(lines):
        if line.startswith("    ") and "+0x" in line:
            stack.append(line.split("+0x")[0].strip())
        else:
            assert line.split()[3:] == ["paths", "leaf"]
            found[own_part([*stack, "leaf"])] += 1
            stack = []
    assert found == logged(log)[0]
    log.unlink()
    words = ("stacks", "--each", "--func", "leaf,main", "--format", "jsonl")
    done = lbtrace(*words, "--", programs / "paths", log, "20")
    calls = [row for row in map(json.loads, done.stdout.splitlines()) if row["type"] == "call"]
    assert sum(call["name"] == "leaf" for call in calls) == logged(log)[0].total()
    assert {call["name"] for call in calls} == {"leaf", "main"}
    starts = [call["start"] for call in calls]
    assert starts == sorted(starts)
    assert all(call["callers"]["frames"] for call in calls)


def test_lists_and_trees(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    words = ["stacks", "--func", "leaf", "--top", "2"]
    command = ["--", programs / "paths", tmp_path / "log", "50"]
    left, least, most = lbtrace(*words, *command).stdout.strip().split("\n\n")
    assert left.endswith("none of them larger")
    for stack in (least, most):
        first, *_, last = stack.splitlines()
        assert first == "  leaf"
        assert int(last) > 1
    assert int(least.splitlines()[-1]) <= int(most.splitlines()[-1])
    tree = lbtrace(*words, "--format", "tree", *command).stdout.splitlines()
    share, name = tree[0].split()[1:]
    assert name == "leaf"
    assert 0 < float(share.rstrip("%")) < 100  # of all, of which the last line has the rest
    assert tree[-1].startswith("and ")
    assert "work" in tree[1].split()


def test_what_has_no_room_is_reported(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MET_STACKS", 8)
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "paths", log, "50"], functions="leaf", action="stacks"
    ) as session:
        rows = session.table()
        counted = sum(row.count for row in rows)
        assert 1 <= len(rows) <= 8
        assert session.losses().uncounted == sum(logged(log)[0].values()) - counted > 0


RUNNING = r"""
#include <stdlib.h>
#include <unistd.h>
#define APART __attribute__((noipa))
APART void leaf(void) { }
APART int compare(const void *a, const void *b) { leaf(); return *(int *)a - *(int *)b; }
APART void order(void) { int v[4] = { 3, 1, 4, 2 }; qsort(v, 4, sizeof(*v), compare); }
APART void once(void) { leaf(); }
int main(void) {
	for (;;) { order(); once(); usleep(10); }
}
"""
"""Comes to leaf() by two paths, one through the C library, as fast as it can."""


def test_no_stack_of_a_process_that_runs_is_cut(
    compiled: Callable[[str, list[str], str], Path], start: Callable[..., Any], lbtrace: Run
) -> None:
    """The first ones neither: what it has mapped is known when the probes are attached."""
    program = compiled("running.c", ["gcc", "-O1", "-g"], RUNNING)
    running = start(program)
    of = ["--func", "leaf", "--pid", running.pid, "--duration", "0.3s", "--format"]
    rows = json.loads(lbtrace("stacks", *of, "json").stdout)["stacks"]
    own = [
        [each["name"] for each in row["frames"] if each["binary"] == str(program)] for row in rows
    ]
    assert {own_part(names[::-1]) for names in own} == {
        "main;once;leaf",
        "main;order;compare;leaf",
    }
    assert {row["end"] for row in rows} == {"outermost"}
    shown = lbtrace("attach", "--stack", "9", *of, "jsonl", "--max-events", "400").stdout
    calls = [row for row in map(json.loads, shown.splitlines()) if row["type"] == "call"]
    assert len(calls) > 100
    assert {call["callers"]["end"] for call in calls} == {"outermost"}


OF_LIBRARY = r"""
#include <search.h>
#include <unistd.h>
static int same(const void *a, const void *b) { return *(int *)a != *(int *)b; }
__attribute__((noipa)) int seek(int n)
{
	int values[] = {3, 1, n};
	size_t count = 3;
	int *found = lfind(&n, values, &count, sizeof n, same);
	return *found + 1;
}
int main(void) { for (int n = 0;; n++) { seek(n); usleep(1000); } }
"""


def test_no_stack_of_a_library_that_processes_run_is_cut(
    compiled: Callable[[str, list[str], str], Path], start: Callable[..., Any], lbtrace: Run
) -> None:
    """What these have mapped besides is known before the probes are attached, though no process is
    named."""
    program = compiled("seeking.c", ["gcc", "-O1", "-fomit-frame-pointer"], OF_LIBRARY)
    start(program)
    of = ["--func", "lfind", "--binary", "libc.so.6", "--duration", "0.5s", "--format", "json"]
    rows = json.loads(lbtrace("stacks", *of).stdout)["stacks"]
    own = [row for row in rows if str(program) in {each["binary"] for each in row["frames"]}]
    assert {row["end"] for row in own} == {"outermost"}
    for row in own:
        assert [frame["name"] for frame in row["frames"][:3]] == ["lfind", "seek", "main"]


LOADED = r"""
#include <stdlib.h>
__attribute__((noipa)) void *get(void)
{
	void *got = malloc(4711);
	__asm__ volatile("");
	return got;
}
__attribute__((constructor)) void begin(void) { for (int n = 0; n < 50; n++) free(get()); }
"""

LOADS = r"""
#include <dlfcn.h>
int main(int count, char **words) { return !dlopen(words[1], RTLD_NOW); }
"""


def test_what_a_command_loads_late_is_known_the_second_time(
    compiled: Callable[[str, list[str], str], Path], lbtrace: Run, tmp_path: Path
) -> None:
    library = compiled("loaded.c", ["gcc", "-O1", "-shared", "-fPIC"], LOADED)
    program = compiled("loads.c", ["gcc", "-O1"], LOADS)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    traced = ["--func", "malloc@libc.so.6", "--where", "arg0 == 4711", "--format", "json"]
    for _ in range(2):
        done = lbtrace("stacks", *traced, "--", program, library, env=environment)
        rows = json.loads(done.stdout)["stacks"]
        assert sum(row["count"] for row in rows) == 50
    assert {row["end"] for row in rows} == {"outermost"}
    names = [[frame["name"] for frame in row["frames"]] for row in rows]
    assert [each[:3] for each in names] == [["malloc", "get", "begin"]]
    assert "main" in names[0]


@pytest.mark.parametrize("place", ["lib/loaded.so", "lib/more/loaded.so", "lib/loads/x/loaded.so"])
def test_what_lies_beside_a_command_is_known_the_first_time(
    place: str, compiled: Callable[[str, list[str], str], Path], lbtrace: Run, tmp_path: Path
) -> None:
    """As in a JDK, and where modules of Python are."""
    program, library = tmp_path / "bin" / "loads", tmp_path / place
    for made, source, flags in ((program, LOADS, []), (library, LOADED, ["-shared", "-fPIC"])):
        made.parent.mkdir(parents=True)
        compiled("made.c", ["gcc", "-O1", *flags], source).rename(made)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    traced = ["--func", "malloc@libc.so.6", "--where", "arg0 == 4711", "--format", "json"]
    done = lbtrace("stacks", *traced, "--", program, library, env=environment)
    found = [(row["count"], row["end"]) for row in json.loads(done.stdout)["stacks"]]
    assert found == [(50, "outermost")]
