"""Global and static variables by name, of programs that log them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import go_toolchains

Run = Callable[..., "subprocess.CompletedProcess[str]"]

MAIN = """
#include <stdio.h>
struct conf { int level; const char *name; struct conf *next; int v[3]; };
static int x = 1;
int shared = 7;
__thread int own = 3;
const char *title = "octi";
struct conf second = {2, "two", 0, {7, 8, 9}}, conf = {1, "one", &second, {4, 5, 6}};
extern int offered;
int other(int), offer(int);
__attribute__((noinline)) int step(int n)
{
    x += n;
    shared *= 2;
    own += n;
    second.v[1] += n;
    title = n > 1 ? "many" : "few";
    return x + offered;
}
int main(void)
{
    for (int n = 1; n < 3; n++) {
        printf("before %d %d %d %d %s\\n", x, shared, second.v[1], offered, title);
        printf("own %d\\n", own);
        step(n);
        other(n);
        offer(n);
        printf("after %d %d %d %d %s\\n", x, shared, second.v[1], offered, title);
    }
    return 0;
}
"""
OTHER = "static int x = 100; __attribute__((noinline)) int other(int n) { return x += n; }"
LIBRARY = "int offered = 1000; __attribute__((noinline)) int offer(int n) { return offered += n; }"

KINDS = {"pie": (), "got": ("-fPIC",), "static": ("-static",)}
"""By the linker: in the first it copies the library's variable into the program, and the last has
fixed addresses."""


@pytest.fixture(scope="module", params=list(KINDS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("globals")
    for name, text in (("main.c", MAIN), ("other.c", OTHER), ("library.c", LIBRARY)):
        (folder / name).write_text(text)
    library = ["gcc", "-g", "-O1", "-fPIC", "-shared", "-o", "liboffer.so", "library.c"]
    subprocess.run(library, cwd=folder, check=True)
    linked = ["-L.", "-loffer", "-Wl,-rpath,$ORIGIN"]
    if request.param == "static":
        linked = ["library.c"]
    words = ["gcc", "-g", "-O1", *KINDS[request.param], "-o", "prog", "main.c", "other.c", *linked]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "prog"


def test_thread_local(lbtrace: Run, program: Path) -> None:
    words = ("--func=step", "--format=jsonl", "--arg=::own", "--", program)
    done = lbtrace("attach", *words)
    assert [[str(value) for value in shown(each)] for each in calls(done)] == logged(
        done.stdout, "own"
    )
    some = lbtrace("attach", "--where", "::own > 3", *words)
    assert [shown(each) for each in calls(some)] == [[4]]


def logged(output: str, word: str) -> list[list[str]]:
    """What the program says of its variables, after each ``word``."""
    return [line.split()[1:] for line in output.splitlines() if line.startswith(word)]


def calls(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    return [r for r in records if r["type"] in ("call", "point")]


def shown(record: dict[str, Any]) -> list[Any]:
    return [argument["value"] for argument in record["args"]]


ALL = ("main.c::x", "::shared", "::conf.next->v[1]", "::offered", "str(::title)")


@pytest.mark.parametrize("strategy", ["auto", "uretprobe"])
def test_at_entry_and_return(lbtrace: Run, program: Path, strategy: str) -> None:
    after = [f"--arg=r{n}=after({each})" for n, each in enumerate(ALL[:4])]
    words = [*(f"--arg={each}" for each in ALL), *after, f"--returns={strategy}"]
    done = lbtrace("attach", "--func=step", *words, "--format=jsonl", "--", program)
    found = calls(done)
    befores, afters = logged(done.stdout, "before"), logged(done.stdout, "after")
    assert [[str(value) for value in shown(each)] for each in found] == befores
    results = [[*map(str, each["result"].values())] for each in found]
    offered = [each[3] for each in befores]  # the library changes it after the call
    assert results == [[*a[:3], o] for a, o in zip(afters, offered, strict=True)]


def test_of_a_library(lbtrace: Run, program: Path) -> None:
    library = program.parent / "liboffer.so"
    binary = program if b"liboffer" not in program.read_bytes() else library
    words = (f"--binary={binary}", "--func=offer", "--arg=::offered", "--arg=a=after(::offered)")
    found = calls(lbtrace("attach", *words, "--format=jsonl", "--", program))
    assert [(shown(each), each["result"]) for each in found] == [
        ([1000], {"a": 1001}),
        ([1001], {"a": 1003}),
    ]


def test_in_conditions_lines_and_places(lbtrace: Run, program: Path) -> None:
    which = ("--where=main.c::x > 1", "--arg=::shared", "--format=jsonl", "--", program)
    assert [shown(each) for each in calls(lbtrace("attach", "--func=step", *which))] == [[14]]
    line = next(n for n, text in enumerate(MAIN.splitlines(), 1) if "step(n);" in text)
    points = calls(lbtrace("attach", f"--line=main.c:{line}", *which))
    assert [shown(each) for each in points] == [[14]]
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(row.split()[0] for row in symbols.splitlines() if row.endswith(" T other"))
    words = (f"--at=prog:0x{address}", "--arg=other.c::x", "--format=jsonl", "--", program)
    assert [shown(each) for each in calls(lbtrace("attach", *words))] == [[100], [101]]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("::x", "name one: main.c::x, other.c::x"),
        ("::sharde", "near it: ::shared"),
        ("other.c::shared", "no global variable"),
    ],
)
def test_what_is_refused(lbtrace: Run, program: Path, asked: str, message: str) -> None:
    done = lbtrace("attach", "--func=step", f"--arg={asked}", "--", program)
    assert done.returncode != 0
    assert message in done.stderr


def test_without_debug_information(lbtrace: Run, program: Path) -> None:
    bare = program.with_name("bare")
    subprocess.run(["strip", "--strip-debug", "-o", bare, program], check=True)
    words = ("--func=step", "--arg=::shared", "--arg=str(::title)", "--format=jsonl", "--", bare)
    assert [shown(each) for each in calls(lbtrace("attach", *words))] == [[7, "octi"], [14, "few"]]


CPP = """
#include <cstdio>
namespace space {
int x = 5;
namespace { int hidden = 8; }
struct Thing { static int count; static inline int inner = 4; };
int Thing::count = 2;
}
__attribute__((noinline)) int step(int n)
{
    space::x += n;
    space::hidden += n;
    space::Thing::count += n;
    return space::Thing::inner += n;
}
int main() { return step(1) + step(2) == 0; }
"""


def test_cpp(lbtrace: Run, tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(CPP)
    subprocess.run(["g++", "-g", "-O1", "-o", "prog", "a.cc"], cwd=tmp_path, check=True)
    names = ("space::x", "space::hidden", "space::Thing::count", "Thing::inner")
    words = [f"--arg={name}" for name in names]
    done = lbtrace("attach", "--func=step", *words, "--format=jsonl", "--", tmp_path / "prog")
    assert [shown(each) for each in calls(done)] == [[5, 8, 2, 4], [6, 9, 3, 5]]


GO = """package main

var counter = 5

//go:noinline
func step(n int) int { counter += n; return counter }

func main() { println(step(1) + step(2)) }
"""


@pytest.mark.parametrize("asked", ["main.counter", "::main.counter"])
def test_go(lbtrace: Run, tmp_path: Path, asked: str) -> None:
    (tmp_path / "a.go").write_text(GO)
    program = go_toolchains.build(go_toolchains.VERSIONS[-1], tmp_path / "a.go", tmp_path / "prog")
    words = ("--func=main.step", f"--arg={asked}", "--format=jsonl", "--", program)
    done = lbtrace("attach", *words)
    assert [shown(each) for each in calls(done)] == [[5], [6]]
    assert f'"name":"{asked}"' in done.stdout
