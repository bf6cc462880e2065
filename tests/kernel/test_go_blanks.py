"""Parameters of Go without a name: those beside them are right or unknown, and so are they."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SLOW = pytest.mark.slow
OTHERS = ("1.21.13", "1.22.10", "1.24.11")

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """package main

var sink interface{}

//go:noinline
func made() []int64 { return nil }

//go:noinline
func list(_ int, q []int64) { sink = q; q = made(); sink = q }

//go:noinline
func kept(_ int, q []int64) int64 { return q[1] }

//go:noinline
func words(a int, _ int, b string, _ string, _ float64, c int8) int {
	sink = a
	return a + len(b) + int(c)
}

func main() {
	q := []int64{7, 8}
	list(1, q)
	kept(1, q)
	words(1, 2, "x", "y", 1.5, 6)
}
"""

MANY = """package main

import "fmt"

//go:noinline
func many(n int, a uint32, b int16, c int8, s, t, u string, d int32, e bool, v string) int {
	if n > 1 && e {
		fmt.Println(s, t, u, v)
	}
	return n + int(a) + int(b) + int(c) + int(d)
}

func main() {
	fmt.Println(many(1, 2, 3, 4, "five", "six", "seven", 8, true, "ten"))
}
"""
SHOWN = [1, 2, 3, 4, "five", "six", "seven", 8, True, "ten"]

LIST = {"len": 2, "cap": 2, "": [7, 8]}
RIGHT = {"list": {"q": LIST}, "kept": {"q": LIST}, "words": {"a": 1, "b": "x", "c": 6}}
BLANKS = {"": [1, 2, "y"], "_": [1, 2, "y"], "~p0": [1], "~p1": [2], "~p3": ["y"], "~p4": [1.5]}


@pytest.fixture(params=["1.15", "1.19", "1.24.11", "1.27.3"])
def program(request: pytest.FixtureRequest, go: ModuleType, tmp_path: Path) -> Path:
    source = tmp_path / "blanks.go"
    source.write_text(PROGRAM)
    made: Path = go.build(request.param, source, tmp_path / "blanks")
    return made


def test_calls(traced: Callable[[Path, str], list[dict[str, Any]]], program: Path) -> None:
    calls = traced(program, "/main[.](list|kept|words)$/")
    assert len(calls) == len(RIGHT)
    for call in calls:
        check(call["name"].removeprefix("main."), call["args"])


@pytest.mark.parametrize(
    "version", ["1.15", "1.19", "1.27.3", *(pytest.param(v, marks=SLOW) for v in OTHERS)]
)
def test_arguments_of_several_parts_that_registers_do_not_hold(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    go: ModuleType,
    tmp_path: Path,
    version: str,
) -> None:
    """Debug information has all parts of each, though it may leave out others beside them."""
    source = tmp_path / "many.go"
    source.write_text(MANY)
    (call,) = traced(go.build(version, source, tmp_path / "many"), "main.many")
    assert [argument["value"] for argument in call["args"]] == SHOWN
    assert call["result"] == 18


def test_lines(lbtrace: Run, program: Path) -> None:
    words = ("attach", "--line", "blanks.go:*", "--locals", "--format", "jsonl", "--quiet")
    done = lbtrace(*words, "-o", "/dev/stdout", "--", program)
    assert done.returncode == 0, done.stderr
    points = [each for each in map(json.loads, done.stdout.splitlines()) if each["type"] == "point"]
    assert len(points) > len(RIGHT)
    for point in points:
        names = {argument["name"] for argument in point["args"]}
        for name, known in RIGHT.items():
            if {*known} <= names:
                check(name, point["args"])


def check(name: str, arguments: list[dict[str, Any]]) -> None:
    """That each is what the source passes, or unknown with a reason."""
    for argument in arguments:
        named, value = argument["name"], argument["value"]
        if value is None:
            assert argument["unreadable"] or argument.get("more"), argument
        elif named in BLANKS:
            assert value in BLANKS[named], arguments
        elif named in RIGHT[name]:
            right = RIGHT[name][named]
            if isinstance(right, dict) and not value[""]:  # elements may be left out
                right = right | {"": []}
            assert value == right, arguments
