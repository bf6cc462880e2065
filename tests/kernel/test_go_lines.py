"""Variables of Go at lines: under their names, as functions show them, or unknown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lbtrace
from lbtrace import Unreadable

pytestmark = pytest.mark.host

VERSION = "1.27.3"

PROGRAM = """\
package main

import "fmt"

type point struct {
	x, y int
	name string
}

//go:noinline
func show(n int) int {
	ret := n * 3
	p := point{n, ret, "pt"}
	list := []int{n, ret, 5}
	text := fmt.Sprint("n=", n)
	for i := 0; i < 2; i++ {
		fmt.Println(i, n, ret, text, p.name, len(list))
	}
	return ret % 7
}

func main() {
	show(12)
	show(13)
}
"""
LINE = 1 + PROGRAM[: PROGRAM.index("\t\tfmt.Println")].count("\n")


@pytest.mark.parametrize("optimised", [False, True])
def test_variables_have_their_names(go: ModuleType, tmp_path: Path, *, optimised: bool) -> None:
    source = tmp_path / "named.go"
    source.write_text(PROGRAM)
    flags = () if optimised else ("-gcflags=-N -l",)
    program = str(go.build(VERSION, source, tmp_path / "named", flags))
    printed = subprocess.run([program], stdout=-1, text=True, check=True).stdout.splitlines()
    command = [sys.executable, "-m", "lbtrace", "attach", "--line", f"named.go:{LINE}", "--locals"]
    done = subprocess.run([*command, "--", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.findall(rf"· named.go:{LINE} (.*)", done.stdout)
    assert len(shown) == len(printed) == 4
    for point, line in zip(shown, printed, strict=True):
        i, n, ret, text, name, length = line.split()
        names = re.findall(r"(?:^|, )([^\s=,]*)=", re.sub(r"\{.*?\}", "", point))
        assert len(names) == len(re.sub(r"\{.*?\}", "", point).split(", "))
        assert f"i={i}" in point
        assert f"n={n}" in point
        assert f'text="{text}"' in point
        if not optimised:
            assert f"ret={ret}" in point
            assert f'p={{x={n}, y={ret}, name="{name}"}}' in point
            assert f"list={{len={length}, cap={length}, [{n}, {ret}, 5]}}" in point


DYNAMIC = """\
package main

import "errors"

type kind interface{ do() int }

type own struct{ n int }

func (o *own) do() int { return o.n }

//go:noinline
func show(k kind, e error, a interface{}) int {
	n := k.do()
	return n // here
}

func main() {
	done := make(chan int)
	for i := 0; i < 3; i++ {
		go func() { done <- show(&own{3}, errors.New("bad"), 5) }()
		<-done
	}
}
"""


@pytest.mark.parametrize("version", ["1.15", VERSION])
@pytest.mark.parametrize("beside", [(), ("--func", "main.(*own).do")], ids=["alone", "beside"])
def test_lines_know_types_and_goroutines(
    go: ModuleType, tmp_path: Path, version: str, beside: tuple[str, ...]
) -> None:
    source = tmp_path / "dynamic.go"
    source.write_text(DYNAMIC)
    program = str(go.build(version, source, tmp_path / "dynamic", ("-gcflags=-N -l",)))
    line = 1 + DYNAMIC[: DYNAMIC.index("// here")].count("\n")
    command = [sys.executable, "-m", "lbtrace", "attach", "--line", f"dynamic.go:{line}", *beside]
    command += ["--locals", "--format", "jsonl", "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    points = [row for row in rows if row["type"] == "point"]
    assert len(points) == 3
    assert len({point["goroutine"] for point in points}) == 3
    for point in points:
        shown = {each["name"]: each["value"] for each in point["args"]}
        assert shown["k"]["type"] == "*main.own"
        assert shown["e"] == {"type": "*errors.errorString", "message": "bad"}
        assert shown["a"]["type"] == "int"


LOGGED = re.compile(r"number \((.+?)\) other \((.+?)\) both \((.+?)\) text (\d+)")
COMPLEX = re.compile(r"[-+]?[\d.]+")


@pytest.mark.parametrize("version", ["1.15", "1.27.3"])
@pytest.mark.parametrize("kind", ["plain", "unoptimised"])
def test_a_value_of_which_half_is_kept(
    go_program: Callable[..., Path], version: str, kind: str
) -> None:
    """Go describes it as if that half were all of it: so it is unknown. Without ``-N`` what is not
    in pieces is such a value."""
    program = str(go_program("halves", version, kind))
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    true = LOGGED.findall(done.stdout)
    with lbtrace.trace(
        command=[program], binary=program, lines="halves.go:13", locals=True
    ) as session:
        points = list(session.calls())
    assert len(true) == 5
    # A line that the compiler has put in several places counts each.
    assert len(points) % len(true) == 0
    each = len(points) // len(true)
    for number, point in enumerate(points):
        *numbers, length = true[number // each]
        shown = {argument.name: argument.value for argument in point.args}
        for name, logged in zip(("number", "other", "both"), numbers, strict=True):
            for found, part in zip(parts(shown[name]), COMPLEX.findall(logged), strict=True):
                assert isinstance(found, Unreadable) or found == float(part), name
            if kind == "unoptimised":
                assert not is_unknown(shown[name])
        text = shown["text"]
        assert is_unknown(text) or len(str(text)) == int(length)


def is_unknown(value: Any) -> bool:
    return isinstance(value, Unreadable)


def parts(value: Any) -> list[Any]:
    if isinstance(value, Unreadable):
        return [value, value]
    found = dict(value)
    return [found["real"], found["imag"]]
