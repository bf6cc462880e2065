"""Calls that end by a jump and were called through a pointer, or from another file: where they
return is found while the trace runs. Compared with the programs' own logs, and with uretprobes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lbtrace as lbtrace_module
from lbtrace import count

Run = Callable[..., subprocess.CompletedProcess[str]]

LIBRARY = """\
#include <unistd.h>
__attribute__((noipa)) int waits(int us) { return usleep(us); }
__attribute__((noipa)) int leaves(int n) { extern int (*volatile way)(int); return way(n); }
static int adds(int n) { usleep(2000); return n + 1; }
int (*volatile way)(int) = adds;
"""

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int waits(int);
int leaves(int);
__attribute__((noipa)) int around(int n)
{
	int found = leaves(n);
	printf("%d %d\\n", n, found);
	return waits(2000) + found;
}
int main(int argc, char **argv)
{
	int many = atoi(argv[1]), forks = argc > 2;
	setlinebuf(stdout);
	for (int n = 0; n < many; n++)
		around(n);
	if (forks && !fork())
		for (int n = 0; n < many; n++)
			around(1000 + n);
	while (wait(0) > 0)
		;
	return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program, which calls a library beside it."""
    folder = tmp_path_factory.mktemp("found")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    gcc = ["gcc", "-O2", "-g"]
    subprocess.run(
        [*gcc, "-shared", "-fPIC", "library.c", "-o", "libfound.so"], cwd=folder, check=True
    )
    own = ["-L.", "-lfound", f"-Wl,-rpath,{folder}"]
    subprocess.run([*gcc, "program.c", "-o", "program", *own], cwd=folder, check=True)
    return folder


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The calls in JSON Lines, in the order in which they began."""
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sorted((r for r in lines if r["type"] == "call"), key=lambda r: r["start"])


def log(done: subprocess.CompletedProcess[str]) -> list[tuple[int, int]]:
    """What a program says of its calls."""
    found = re.findall(r"^(\d+) (\d+)$", done.stdout, re.M)
    return [(int(n), int(result)) for n, result in found]


def check_found(calls: Sequence[dict[str, Any]]) -> int:
    """Check that calls end by a jump until it is found where they return, and return then; return
    how many do not. While a relay is attached elsewhere one may not be known."""
    ends = [call["end"] for call in calls]
    assert ends[0] == "tail"
    assert {*ends} == {"tail", "returned"}
    assert {*ends[len(ends) // 2 :]} == {"returned"}
    return ends.count("tail")


@pytest.mark.parametrize("forks", [False, True])
def test_a_program_calls_a_library(library: Path, lbtrace: Run, mode: Any, forks: bool) -> None:
    """The children that it forks, too: what was found once is known of all processes."""
    words = ("attach", "--binary", library / "libfound.so", "--func", "waits,leaves")
    how = ("--mode", mode, "--format", "jsonl")
    done = lbtrace(*words, *how, "--", library / "program", 300, *["forks"] * forks)
    calls = rows(done)
    for name in ("waits", "leaves"):
        own = [call for call in calls if call["name"] == name]
        assert len(own) == 300 * (1 + forks)
        check_found(own)
        for call in own:
            assert call["depth"] == 0
            assert (call["result"] is None) == (call["end"] == "tail")
            assert call["end"] == "tail" or call["duration"] > 2_000_000
    said = log(done)
    seen = [(c["args"][0]["value"], c["result"]) for c in calls if c["name"] == "leaves"]
    assert len(said) == len(seen)
    assert all(result in (None, true) for (_, result), (_, true) in zip(seen, said, strict=True))


def test_a_running_process(library: Path, lbtrace: Run) -> None:
    with subprocess.Popen([library / "program", "1000"], stdout=subprocess.DEVNULL) as program:
        words = ("--binary", library / "libfound.so", "--func", "leaves", "--format", "jsonl")
        done = lbtrace("attach", "--pid", program.pid, "--max-events", 200, *words)
        program.kill()
    check_found(rows(done)[:-1])


def test_a_capture_holds_what_was_found(library: Path, lbtrace: Run, tmp_path: Path) -> None:
    into = tmp_path / "found.lbt"
    words = ("--binary", library / "libfound.so", "--func", "waits,leaves")
    lbtrace("attach", *words, "-o", into, "--", library / "program", 200)
    calls = rows(lbtrace("export", into, "--format", "jsonl"))
    assert len(calls) == 400
    unseen = sum(check_found([c for c in calls if c["name"] == n]) for n in ("waits", "leaves"))
    report = lbtrace("report", into).stdout
    assert re.search(rf"^{unseen} calls? jumped to a function", report, re.M)


def test_conditions_and_counts(library: Path, lbtrace: Run) -> None:
    """Each call is compared, or counted as one that could not be."""
    with lbtrace_module.trace(
        command=[str(library / "program"), "300"],
        binary=[str(library / "libfound.so")],
        functions=["leaves"],
        where="duration > 1ms and retval > 0",
    ) as session:
        calls = [*session.calls()]
        losses = session.losses()
    assert {call.end for call in calls} == {"returned"}
    assert all((call.duration or 0) > 1_000_000 for call in calls)
    results = [call.result for call in calls]
    assert results == [call.args[0].value + 1 for call in calls]  # type: ignore[operator]
    assert len(calls) > 100
    assert len(calls) + losses.uncompared_tail == 300
    with count(
        command=[str(library / "program"), "300"],
        binary=[str(library / "libfound.so")],
        functions=["leaves"],
        by="retval",
    ) as made:
        made.wait()
    counted = {row.by["retval"]: row.count for row in made.rows}
    assert len(counted) > 100
    assert all(number == 1 for result, number in counted.items() if result is not None)
    done = lbtrace(
        *("attach", "--binary", library / "libfound.so", "--func", "leaves,waits"),
        *("--slow", "1ms", "--", library / "program", 200),
    )
    slow = done.stdout.count("leaves(n=")
    unseen = re.search(r"not shown: (\d+) calls that jumped", done.stderr)
    assert unseen
    assert slow > 50


VIRTUAL = """\
#include <cstdlib>
#include <cstring>
#include <unistd.h>
struct Shape { virtual int area(int n) = 0; virtual ~Shape() {} };
static int (*volatile how)(int) = [](int n) { usleep(1500); return 3 * n; };
struct Square : Shape { int area(int n) override { return how(n); } };
struct Circle : Shape { int area(int n) override { return how(n + 1); } };
extern "C" __attribute__((noipa)) int compare(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}
__attribute__((noipa)) int total(Shape *shape, int n) { return shape->area(n) + 1; }
int main()
{
	Shape *shapes[] = {new Square, new Circle};
	for (int n = 0; n < 800; n++) {
		const char *words[] = {"d", "a", "c", "b"};
		qsort(words, 4, sizeof(*words), compare);
		total(shapes[n & 1], n);
	}
}
"""


def test_virtual_functions_and_callbacks(compiled: Any) -> None:
    """Compared with uretprobes, of which both see the same calls."""
    program = compiled("virtual", ["g++", "-O2", "-g", "-x", "c++"], VIRTUAL)
    words = {"command": [str(program)], "functions": ["*area*", "compare", "total*"]}
    with lbtrace_module.trace(**words, returns="uretprobe", unsafe=True) as session:
        truth = [*session.calls()]
    with lbtrace_module.trace(**words) as session:
        calls = [*session.calls()]
    assert len(calls) == len(truth)
    for call, true in zip(calls, truth, strict=True):
        assert (call.name, call.depth) == (true.name, true.depth)
        if call.end == "returned":
            assert call.result == true.result
    for name in ("Square::area", "Circle::area", "compare"):
        own = [call for call in calls if call.name == name]
        assert own[0].end == "tail"
        later = own[len(own) // 2 :]
        assert {call.end for call in later} == {"returned"}
    areas = [call for call in calls if call.name == "Square::area" and call.end == "returned"]
    assert all((call.duration or 0) > 1_500_000 for call in areas)


THROWING = """\
#include <stdexcept>
#include <unistd.h>
static volatile int sink;
extern "C" {
int (*volatile hook)(int);
__attribute__((noipa)) int slow(int n)
{
	usleep(2000);
	if (n % 3 == 2)
		throw std::runtime_error("third");
	return n + 1;
}
__attribute__((noipa)) int query(int n) { sink = n; return hook(n); }
__attribute__((noipa)) int other(int n) { sink = n; return hook(n * 3); }
}
"""

CATCHING = """\
#include <stdexcept>
extern "C" { int query(int); int other(int); int slow(int); extern int (*volatile hook)(int); }
int main()
{
	hook = slow;
	for (int n = 0; n < 500; n++) {
		try {
			query(n);
		} catch (std::exception &) {
		}
		other(n);
	}
}
"""


def test_exceptions_that_other_files_catch(tmp_path: Path) -> None:
    """No call has the result of the one that was made next at its frame."""
    for name, text in (("throwing.cc", THROWING), ("catching.cc", CATCHING)):
        (tmp_path / name).write_text(text)
    shared = ["-shared", "-fPIC", "throwing.cc", "-o", "libthrowing.so"]
    own = ["catching.cc", "-o", "catching", "-L.", "-lthrowing", f"-Wl,-rpath,{tmp_path}"]
    for words in (shared, own):
        subprocess.run(["g++", "-O2", "-g", *words], cwd=tmp_path, check=True)
    with lbtrace_module.trace(
        command=[str(tmp_path / "catching")],
        binary=[str(tmp_path / "libthrowing.so")],
        functions=["query", "other"],
    ) as session:
        calls = [*session.calls()]
    assert [call.name for call in calls] == ["query", "other"] * 500
    assert {call.depth for call in calls} == {0}
    for call in calls:
        n = call.args[0].value
        assert isinstance(n, int)
        if call.end == "returned":
            assert call.result == (n + 1 if call.name == "query" else 3 * n + 1)
    ends = [(call.name, call.end) for call in calls[-200:]]
    assert set(ends) == {("query", "returned"), ("query", "unwound"), ("other", "returned")}


MADE = """\
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noipa)) int waits(int us) { return usleep(us); }
/* sub $8, %rsp; call *%rsi; add $8, %rsp; ret */
static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd6, 0x48, 0x83, 0xc4, 8, 0xc3};
int main(void)
{
	const int access = PROT_READ | PROT_WRITE | PROT_EXEC;
	void *made = mmap(0, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(made, code, sizeof(code));
	for (int n = 0; n < 200; n++)
		((int (*)(int, int (*)(int)))made)(1000, waits);
	return 0;
}
"""


def test_code_that_is_in_no_file(compiled: Any) -> None:
    program = compiled("made", ["gcc", "-O2", "-g"], MADE)
    with lbtrace_module.trace(command=[str(program)], functions=["waits"]) as session:
        calls = [*session.calls()]
    assert [(call.end, call.leads_to) for call in calls] == [("tail", "usleep")] * 200


SHARED = """\
#include <unistd.h>
static volatile long sink;
static long rare(long n) { return n + 1; }
static long (*volatile hook)(long) = rare;
__attribute__((noipa)) long away(long n) { return hook(n); }
__attribute__((noipa)) long often(long n) { sink = n; return n; }
static long (*volatile ways[])(long) = {often, away};
__attribute__((noipa)) long site(int which, long n) { return ways[which](n) + 1; }
int main(void)
{
	for (int round = 0; round < 20; round++) {
		for (long n = 0; n < 100000; n++)
			site(n % 1000 == 0, n);
		usleep(20000);
	}
}
"""


def test_a_place_where_much_else_returns(compiled: Any) -> None:
    """All of that would pay for the probe: it is taken away again."""
    program = compiled("shared", ["gcc", "-O2", "-g"], SHARED)
    with lbtrace_module.trace(command=[str(program)], functions=["away"]) as session:
        calls = [*session.calls()]
    assert len(calls) == 2000
    assert {call.end for call in calls} == {"tail"}
