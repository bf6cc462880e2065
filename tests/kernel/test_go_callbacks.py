"""Where Go's register for the goroutine holds something else: where C calls Go back, on stacks of
threads, and in assembly. A call is shown in a goroutine only if that one makes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
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
