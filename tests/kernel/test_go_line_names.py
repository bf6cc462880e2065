"""Variables of Go at lines: under their names, and as functions show them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.mark.host
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
            assert f"list={{len={length}, " in point


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


@pytest.mark.host
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
