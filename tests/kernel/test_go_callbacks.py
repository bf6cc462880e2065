"""Where Go's register for the goroutine holds something else: where C calls Go back, on stacks of
threads, and in assembly. A call is shown in a goroutine only if that one makes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SLOW = pytest.mark.slow
VERSIONS = [
    *("1.15", "1.27.3"),
    *(pytest.param(v, marks=SLOW) for v in ("1.19", "1.21.13", "1.24.11", "1.26.6")),
]

HIGHEST = 1000
"""No goroutine of the program has such a number: each processor takes sixteen at a time."""

ON_THREADS = ("crosscall2", "runtime.cgocallback", "runtime.rt0_go", "setg_gcc")
"""What C and the loader call before a goroutine is chosen."""

SAVING = ("crosscall2", "runtime.sigtramp", "runtime.asyncPreempt")
"""What loads registers last of all from where it saved them."""

WORK = r"""
#include <dlfcn.h>
int main(int argc, char **argv)
{
	long (*work)(long) = (long (*)(long))dlsym(dlopen(argv[1], RTLD_NOW), "work");
	for (long n = 0; n < 10; n++)
		if (work(n) != n + 1)
			return 1;
}
"""

DIGESTS = """package main

import (
	"crypto/md5"
	"crypto/sha1"
	"fmt"
)

//go:noinline
func digest(n int) [16]byte { return md5.Sum(make([]byte, 1000*n)) }

//go:noinline
func sum(n int) [20]byte { return sha1.Sum(make([]byte, 20*n)) }

func main() {
	done := make(chan bool)
	for g := 0; g < 4; g++ {
		go func() {
			for n := 1; n <= 25; n++ {
				digest(n)
				sum(n)
			}
			done <- true
		}()
	}
	for g := 0; g < 4; g++ {
		<-done
	}
	fmt.Println(digest(1), sum(1))
}
"""


@pytest.fixture
def traced(go_program: Any, lbtrace: Any, tmp_path: Path) -> Callable[..., Any]:
    """The calls of the program that an option names, and the lines that it prints."""

    def trace(version: str, *words: str) -> tuple[list[dict[str, Any]], list[str]]:
        output = tmp_path / "out.jsonl"
        done = lbtrace(
            *("attach", *(w for each in words[:-1] for w in ("--func", each)), "--quiet"),
            *("--ring-size", "64M", "-o", output, "--", go_program("callbacks", version, "cgo")),
            *words[-1].split(),
        )
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in output.read_text().splitlines()]
        assert not any(records[-1]["lost"].values())
        return [r for r in records if r["type"] == "call"], done.stdout.splitlines()

    return trace


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_of_c_and_of_the_runtime_belong_to_threads(
    traced: Callable[..., Any], version: str
) -> None:
    """Assembly that C calls has no goroutine in its registers, but something else."""
    runtime = ("runtime.cgocallbackg", "runtime.systemstack", "runtime.mcall")
    calls, printed = traced(version, "main.*", "middle", *ON_THREADS, *SAVING, *runtime, "")
    assert max(call.get("goroutine", 0) for call in calls) < HIGHEST
    own = Counter((int(n), int(goroutine)) for n, goroutine in map(str.split, printed))
    inner = [call for call in calls if call["name"] == "main.inner"]
    assert Counter((c["args"][0]["value"], c["goroutine"]) for c in inner) == own
    for call in calls:
        if call["name"] in ON_THREADS:
            assert "goroutine" not in call, call
    middle = [call for call in calls if call["name"] == "middle"]
    results = {call["args"][0]["value"]: call["result"] for call in inner}
    assert len(middle) == len(inner)
    assert all(c["result"] == results[c["args"][0]["value"]] + 1 for c in middle)
    for name in ("crosscall2", "runtime.cgocallback"):
        made = [call for call in calls if call["name"] == name]
        assert len(made) >= len(inner)
        assert {call["end"] for call in made} == {"returned"}
        for call in middle:
            assert any(holds(call, other) for other in made)


def holds(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    """Whether one call was made inside of another."""
    if outer["tid"] != inner["tid"] or outer["depth"] >= inner["depth"]:
        return False
    start, end = outer["start"], outer["start"] + outer["duration"]
    return bool(start < inner["start"] and inner["start"] + inner["duration"] < end)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_preempted_function_calls_as_before(traced: Callable[..., Any], version: str) -> None:
    """A signal makes it call runtime.asyncPreempt, whose return is seen."""
    calls, _ = traced(version, "main.spin", "main.leaf", "runtime.asyncPreempt", "preempted")
    assert {call["end"] for call in calls} == {"returned"}
    assert any(call["name"] == "runtime.asyncPreempt" for call in calls)
    assert {call["depth"] for call in calls if call["name"] == "main.leaf"} == {1}


@pytest.mark.host  # compiles
def test_a_library_for_c_is_preempted(
    go_program: Any, compiled: Any, lbtrace: Any, tmp_path: Path
) -> None:
    """It has g where the loader finds room; what saves the register returns with it."""
    output, library = tmp_path / "out.jsonl", go_program("callbacks", "1.27.3", "shared")
    host = compiled("work", ["gcc"], WORK)
    functions = (w for name in ("main.*", *SAVING, *ON_THREADS) for w in ("--func", name))
    words = ("attach", "--binary", library, *functions, "--quiet", "-o", output)
    done = lbtrace(*words, "--", host, library)
    assert done.returncode == 0, done.stderr
    calls = [r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call"]
    assert max(call.get("goroutine", 0) for call in calls) < HIGHEST
    named = {name: [c for c in calls if c["name"] == name] for name in ("main.leaf", *SAVING)}
    assert len(named["main.leaf"]) == 10
    for name in SAVING:
        assert named[name]
        assert {call["end"] for call in named[name]} == {"returned"}
        assert name == "runtime.asyncPreempt" or not any("goroutine" in c for c in named[name])
    assert len({call["depth"] for call in named["main.leaf"]}) == 1


@pytest.mark.host  # compiles
@pytest.mark.parametrize("version", ["1.19", "1.27.3", pytest.param("1.24.11", marks=SLOW)])
@pytest.mark.parametrize("caller", ["digest", "sum"])
def test_assembly_that_uses_the_register_returns(
    go: ModuleType, lbtrace: Any, tmp_path: Path, version: str, caller: str
) -> None:
    """So does the Go function that calls it, and loads the register just before it returns, as
    crypto/sha1.block does where the processor has nothing better."""
    source, output = tmp_path / "digests.go", tmp_path / "out.jsonl"
    source.write_text(DIGESTS)
    program = go.build(version, source, tmp_path / "digests")
    block = "crypto/md5.block" if caller == "digest" else "crypto/sha1.block"
    functions = ("--func", f"main.{caller}", "--func", block)
    done = lbtrace("attach", *functions, "--quiet", "-o", output, "--", program)
    assert done.returncode == 0, done.stderr
    calls = [r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call"]
    named = {call["name"]: 0 for call in calls}
    for call in calls:
        named[call["name"]] += 1
        assert call["end"] == "returned"
        assert call["depth"] == (call["name"] == block)
    assert named[f"main.{caller}"] == 101
    assert named[block] >= 101
    callers = {call["goroutine"] for call in calls if call["name"] == f"main.{caller}"}
    assert {call["goroutine"] for call in calls} == callers
    assert len(callers) == 5
