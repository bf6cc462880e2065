"""Points where functions were inlined; the program logs what is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace import Unreadable
from lbtrace.errors import BinaryError, NoMatchError, UsageError
from tests.made_inlined import CALLS, TURNS, build_entry

pytestmark = pytest.mark.host

PROGRAM = r"""
#include <stdio.h>
struct pair { int low, high; };

static inline __attribute__((always_inline)) int clamp(int value, struct pair bounds)
{
	int result = value < bounds.low ? bounds.low : value;

	if (result > bounds.high)
		result = bounds.high;
	return result;
}

static inline __attribute__((always_inline)) long twice(int n)
{
	__asm__ volatile("nop" : "+r"(n));
	return n * 2L + 1;
}

__attribute__((noinline)) long weigh(int *at, int depth)
{
	struct pair bounds = { depth, depth * 40 };
	long sum = 0;

#pragma GCC unroll 1
	for (int i = 0; i < 3; i++) {
		int each = at[i] * depth;

		printf("clamp %d %d %d\n", each, bounds.low, bounds.high);
		sum += clamp(each, bounds);
	}
	printf("twice %d\n", depth);
	return sum + twice(depth);
}

int main(int argc, char **argv)
{
	int all[3] = { argc, 5 * argc, 300 };
	long sum = 0;

	setvbuf(stdout, 0, _IONBF, 0);
#pragma GCC unroll 1
	for (int i = 1; i < 5; i++)
		sum += weigh(all, i);
	printf("%ld\n", sum);
	return 0;
}
"""

BUILDS = [
    "gcc -O0",
    "gcc -O1",
    "gcc -O2",
    "gcc -O3 -gdwarf-4",
    "gcc -O2 -gsplit-dwarf",
    "gcc -O2 -flto",
    "clang -O0",
    "clang -O1",
    "clang -O1 -gsplit-dwarf",
    "clang -O1 -gdwarf-4",
]


NESTED = r"""
#include <stdio.h>

static inline __attribute__((always_inline)) long twice(int n)
{
	__asm__ volatile("nop" : "+r"(n));
	return n * 2L + 1;
}

__attribute__((noinline)) long work(int n)
{
	long sum = twice(n);

	if (n % 3 == 2)
		sum += work(n - 1);
	__asm__ volatile(""); /* or the call becomes a loop, and the copy two */
	return sum;
}

__attribute__((noinline)) long outer(int n)
{
	long sum = work(n);

	return sum + twice(-n);
}

int main(void)
{
	long sum = 0;

#pragma GCC unroll 1
	for (int n = 1; n < 9; n++) {
		sum += work(n);
		sum += outer(n);
		sum += twice(100 * n);
	}
	return sum == 7;
}
"""


@pytest.fixture
def build(tmp_path: Path):
    def made(kind: str, source: str = PROGRAM) -> str:
        (tmp_path / "inlined.c").write_text(source)
        words = [*kind.split(), "-g", "inlined.c", "-o", "inlined"]
        subprocess.run(words, cwd=tmp_path, check=True)
        return str(tmp_path / "inlined")

    return made


def logged(program: str) -> list[tuple[str, list[int]]]:
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    found = re.findall(r"^(clamp|twice) (.*)$", done.stdout, re.M)
    return [(name, list(map(int, numbers.split()))) for name, numbers in found]


@pytest.mark.parametrize("kind", BUILDS)
def test_each_copy_is_a_point_with_its_arguments(build, kind: str) -> None:
    """As often as the program comes there, with what it was passed, or what says why not."""
    program = build(kind)
    with lbtrace.trace(
        command=[program], binary=program, functions=["clamp", "twice"], inlined=True
    ) as session:
        points = list(session.calls())
    expected = logged(program)
    assert [point.name for point in points] == [name for name, _ in expected]
    read = 0
    for point, (_, numbers) in zip(points, expected, strict=True):
        assert point.end == "point"
        assert [argument.name for argument in point.args] == (
            ["value", "bounds"] if len(numbers) > 1 else ["n"]
        )
        leaves = [
            leaf
            for value in point.args.values()
            for leaf in (dict(value).values() if hasattr(value, "fields") else [value])
        ]
        known = [not isinstance(leaf, Unreadable) for leaf in leaves]
        if all(known):
            assert leaves == numbers
            read += 1
        elif known[0]:
            assert leaves[0] == numbers[0]
    if kind in ("gcc -O0", "gcc -O1", "gcc -O2", "gcc -O3 -gdwarf-4", "clang -O0"):
        assert read == len(points), points[:4]


def test_beside_calls(build, tmp_path: Path) -> None:
    """They stand in the tree, and in every format, below the calls that they are in."""
    program, kept = build("gcc -O2"), str(tmp_path / "kept.lbt")
    words = [sys.executable, "-m", "lbtrace"]
    traced = [*words, "attach", "--source", "inlined.c", "--inlined", "-o", kept, "--", program]
    done = subprocess.run(traced, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in ("jsonl", "chrome", "racket", "tree"):
        export = [*words, "export", kept, "--format", name]
        found[name] = subprocess.run(export, capture_output=True, text=True, check=True).stdout
    assert "│ │ · clamp value=1, bounds={low=1, high=40}" in found["tree"]
    points = [json.loads(line) for line in found["jsonl"].splitlines()]
    points = [point for point in points if point["type"] == "point"]
    assert [point["name"] for point in points] == [name for name, _ in logged(program)]
    assert {point["depth"] for point in points} == {2}
    events = [e for e in json.loads(found["chrome"])["traceEvents"] if e["ph"] == "i"]
    assert len(events) == len(points) == found["racket"].count("; ")


def test_conditions(build) -> None:
    """The kernel compares arguments there as in calls."""
    program = build("gcc -O2")
    with lbtrace.trace(
        command=[program],
        binary=program,
        functions="clamp",
        inlined=True,
        arg=["bounds.high", "value"],
        where="value > 1000",
    ) as session:
        shown = [list(point.args.values()) for point in session.calls()]
    assert shown == [[n[2], n[0]] for name, n in logged(program) if name == "clamp" and n[0] > 1000]


@pytest.mark.parametrize("kind", ["gcc -O0", "gcc -O2", "clang -O1"])
def test_below_calls(build, kind: str) -> None:
    """``within`` leaves out the points that are not below calls, and keeps the others."""
    program = build(kind, NESTED)
    with lbtrace.trace(
        command=[program], binary=program, functions=["twice"], inlined=True, within="outer"
    ) as session:
        calls = list(session.calls())
    below = []
    for n in range(1, 9):
        below += [n, n - 1, -n] if n % 3 == 2 else [n, -n]
    assert [call.args["n"] for call in calls if call.name == "twice"] == below
    assert [call.name for call in calls].count("outer") == 8
    assert {call.depth for call in calls if call.name == "twice"} == {1}


def test_list(build) -> None:
    """As gdb places its breakpoints."""
    program = build("gcc -O2")
    words = [sys.executable, "-m", "lbtrace", "list", "--binary", program, "--inlined", "--func"]
    done = subprocess.run([*words, "*"], capture_output=True, text=True, check=True)
    rows = {
        line.split()[1].partition("(")[0]: int(line.split()[0], 16)
        for line in done.stdout.splitlines()
    }
    assert "clamp(int value, struct pair bounds), inlined in weigh" in done.stdout
    listed = subprocess.run([*words, "*", "--json"], capture_output=True, text=True, check=True)
    found = json.loads(listed.stdout)
    assert {row["name"]: row["address"] for row in found} == rows
    assert {"clamp": "weigh"}.items() <= {row["name"]: row["within"] for row in found}.items()
    script = [word for name in rows for word in ("-ex", f"break {name}")]
    said = subprocess.run(
        ["gdb", "-batch", "-nx", *script, program], capture_output=True, text=True, check=True
    ).stdout
    assert [int(at, 16) for at in re.findall(r"^Breakpoint \d+ at (\w+)", said, re.M)] == [
        *rows.values()
    ]


def test_errors(build) -> None:
    program = build("gcc -O2")

    def plan(**wanted: object) -> None:
        lbtrace.trace(command=[program], binary=program, inlined=True, **wanted)

    with pytest.raises(UsageError, match="inlined= is about functions"):
        plan(lines="inlined.c:*")
    with pytest.raises(UsageError, match="sees no return"):
        plan(functions="clamp", where="retval > 2")
    with pytest.raises(NoMatchError, match="clomp: matches no function"):
        plan(functions="clomp")
    with pytest.raises(NoMatchError, match=r"clomp\.c: is no source file"):
        plan(source="clomp.c")
    with pytest.raises(UsageError, match="nope is not known"):
        plan(functions="clamp", where="nope > 2")
    subprocess.run(["strip", "-g", program], check=True)
    with pytest.raises(BinaryError, match="no debug information"):
        plan(functions="clamp")


def test_a_copy_counts_where_it_is_entered(tmp_path: Path) -> None:
    """Not where its lowest instruction is, in a loop: each call of the function around it comes to
    its entry once."""
    program = build_entry(tmp_path, "address")
    wanted: dict[str, int] = {"copied": CALLS, "made:low": CALLS * TURNS}
    image = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    low = next(line.split()[0] for line in image.splitlines() if line.endswith(" low"))
    counted = dict.fromkeys(wanted, 0)
    with lbtrace.trace(
        command=[program], binary=program, functions=["copied"], inlined=True
    ) as session:
        for point in session.calls():
            counted[point.name] += 1
    with lbtrace.trace(command=[program], binary=program, places=f"{program}:0x{low}") as session:
        for _ in session.calls():
            counted["made:low"] += 1
    assert counted == wanted


NAMESAKE = """
static int used(int n) { volatile int a = n; return a * 7; }
static inline int read(int n) { volatile int a = n; return a * 3 + used(a); }
int main(int count, char **words) { (void)words; return read(count) + read(count + 1) != 50; }
"""


def test_a_function_of_the_program_before_one_of_a_library(lbtrace: Any, compiled: Any) -> None:
    """libc has a ``read`` too, which the program does not call."""
    program = compiled("namesake", ["gcc", "-O2", "-g"], NAMESAKE)
    for words in (
        ("attach", "--func", "read", "--", program),
        ("list", "-f", "read", "--binary", program),
    ):
        done = lbtrace(*words)
        assert done.returncode == 2
        assert "it was inlined in main: add --inlined" in done.stderr
