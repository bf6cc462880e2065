"""Go that is linked at run time: plugins, and programs that share Go's own packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Lbtrace = Callable[..., "subprocess.CompletedProcess[str]"]

PLUGIN = """\
package main

import "fmt"

//go:noinline
func Deep(n int, s string) (int, string) {
	if n == 0 {
		return 0, s
	}
	m, t := Deep(n-1, s+"x")
	return m + 1, t
}

//go:noinline
func Fail(n int) error { return fmt.Errorf("fail %d", n) }
"""

HOST = """\
package main

import (
	"fmt"
	"os"
	"plugin"
)

//go:noinline
func host(deep func(int, string) (int, string), n int) (int, string) { return deep(n, "p") }

func main() {
	p, err := plugin.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	deep, _ := p.Lookup("Deep")
	fail, _ := p.Lookup("Fail")
	fmt.Println(host(deep.(func(int, string) (int, string)), 3))
	fmt.Println(fail.(func(int) error)(4))
}
"""

GROWING = """\
package main

//go:noinline
func grow(n int) int {
	var b [400]byte
	b[n%400] = 1
	if n == 0 {
		return 0
	}
	return grow(n-1) + int(b[n%400])
}

func main() {
	c := make(chan int)
	for i := 0; i < 10; i++ {
		go func() { c <- grow(100) }()
	}
	for i := 0; i < 10; i++ {
		println(<-c)
	}
}
"""
"""A thousand calls and ten, on stacks that grow."""


def recorded(output: Path) -> list[dict[str, Any]]:
    records = map(json.loads, output.read_text().splitlines())
    return [record for record in records if record["type"] == "call"]


def source(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / f"{name}.go"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "version", ["1.15", *(pytest.param(v, marks=pytest.mark.slow) for v in ("1.19", "1.27.3"))]
)
@pytest.mark.parametrize("stripped", [False, True])
def test_plugins(
    go: ModuleType, lbtrace: Lbtrace, tmp_path: Path, version: str, stripped: bool
) -> None:
    """Those of old versions have neither Go's sections nor the version."""
    made, needs_c = source(tmp_path, "made", PLUGIN), {"CGO_ENABLED": "1"}
    plugin = go.build(version, made, tmp_path / "made.so", ("-buildmode=plugin",), **needs_c)
    host = go.build(version, source(tmp_path, "host", HOST), tmp_path / "host", **needs_c)
    if stripped:
        subprocess.run(["strip", plugin], check=True)
    words = ("--binary", host, "--binary", plugin, "--func", "main.host", "--func", "*.Deep")
    done = lbtrace(
        *("attach", *words, "--func", "*.Fail", "--strict", "--quiet"),
        *("-o", tmp_path / "out.jsonl", "--", host, plugin),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 pxxx", "fail 4"]
    calls = recorded(tmp_path / "out.jsonl")
    assert all(call["end"] == "returned" for call in calls)
    assert len({call["goroutine"] for call in calls}) == 1
    deep = [call for call in calls if call["name"].endswith(".Deep")]
    assert sorted(call["args"][0]["value"] for call in deep) == [0, 1, 2, 3]
    assert sorted(call["depth"] for call in deep) == [1, 2, 3, 4]
    if not stripped:
        assert {c["args"][1]["value"]: c["result"] for c in deep} == {
            "p" + "x" * n: [3 - n, "pxxx"] for n in range(4)
        }
        (fail,) = (call for call in calls if call["name"].endswith(".Fail"))
        assert (fail["args"][0]["value"], fail["result"]["message"]) == (4, "fail 4")


@pytest.mark.slow
def test_programs_that_share_the_runtime(go: ModuleType, lbtrace: Lbtrace, tmp_path: Path) -> None:
    """They ask a stub for a larger stack. (The compiler puts the library where it lies itself.)"""
    version, root = "1.27.3", tmp_path / "go"
    shutil.copytree(go.goroot(version), root, copy_function=os.symlink)
    environment = go.environment(version, GOROOT=str(root), CGO_ENABLED="1")
    program = tmp_path / "program"
    built = ("build", "-linkshared", "-o", program, source(tmp_path, "growing", GROWING))
    for words in (("install", "-buildmode=shared", "runtime", "runtime/cgo"), built):
        subprocess.run([root / "bin/go", *words], env=environment, cwd=tmp_path, check=True)
    output = tmp_path / "out.jsonl"
    done = lbtrace(
        *("attach", "--func", "main.grow", "--strict", "--quiet", "-o", output, "--", program)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == ["100"] * 10
    calls = recorded(output)
    assert len(calls) == 1010
    assert all(call["result"] == call["args"][0]["value"] for call in calls)
    (library,) = (root / "pkg").rglob("*.so")
    words = ("--func", "runtime.chansend1", "--func", "runtime.chanrecv1")
    done = lbtrace(
        *("attach", "--binary", library, *words, "--strict", "--quiet", "--force"),
        *("-o", output, "--", program),
    )
    assert done.returncode == 0, done.stderr
    named = [call["name"] for call in recorded(output)]
    assert (named.count("runtime.chansend1"), named.count("runtime.chanrecv1")) >= (10, 10)
