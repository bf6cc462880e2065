"""Variables of Go at lines: under their names, and as functions show them."""

from __future__ import annotations

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
