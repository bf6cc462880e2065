"""Floats in vector registers against what the program itself says of each call."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[[str, list[str], str], Path]

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"

AMD64 = os.uname().machine == "x86_64"
"""Only there floats are searched after a function's first instructions."""

UNREAD = {"traced_loop", "traced_again"}
"""Where a jump leads back to the first place at which the floats are stored."""


def traced(
    lbtrace: Run, program: Path, out: Path, *more: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the program says of each call that it makes, beside what the trace says."""
    done = lbtrace(
        *("attach", "--func", "*traced_*", "--format", "jsonl", "-o", out, "--strict"),
        *(*more, "--", program),
    )
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    seen = [json.loads(line) for line in out.read_text().splitlines()]
    # Of recursion the outermost call is logged; some compilers inline whatever they may.
    calls = [call for call in seen if call["type"] == "call" and call["depth"] == 0]
    calls = [call for call in calls if "." not in call["name"]]  # clones lack arguments
    names = {call["name"] for call in calls}
    reported = [call for call in reported if call["name"] in names]
    assert [call["name"] for call in calls] == [call["name"] for call in reported]
    return list(zip(reported, calls, strict=True))


def agree(shown: Any, reported: Any) -> int:
    """The numbers of a value that can be read; all are what the program says."""
    if shown is None:
        return 0
    if isinstance(reported, dict):
        assert list(shown) == list(reported)
        return sum(agree(shown[name], reported[name]) for name in reported)
    if isinstance(reported, list):
        assert len(shown) == len(reported)
        return sum(map(agree, shown, reported))
    assert shown == (
        reported if isinstance(reported, str) else pytest.approx(reported, rel=1e-8, abs=0)
    )
    return 1


def count(reported: Any) -> int:
    if isinstance(reported, dict | list):
        return sum(map(count, reported.values() if isinstance(reported, dict) else reported))
    return 1


def check(reported: dict[str, Any], seen: dict[str, Any]) -> list[bool]:
    """Whether the arguments and the result could be read; what could is right."""
    arguments = [a["value"] for a in seen["args"] if a["name"] != "this"]
    assert len(arguments) == len(reported["args"]), reported
    whole = [agree(a, b) == count(b) for a, b in zip(arguments, reported["args"], strict=True)]
    if seen["end"] != "returned":
        return whole
    return [*whole, agree(seen["result"], reported["result"]) == count(reported["result"])]


COMMANDS = [
    (["g++"], "g++"),
    (["clang++"], "clang++"),
    (["g++", "-gdwarf-4", "-fcf-protection"], "g++-cet"),
]


@pytest.mark.parametrize(("command", "name"), COMMANDS, ids=[name for _, name in COMMANDS])
def test_unoptimised(
    lbtrace: Run, compiled: Compile, tmp_path: Path, command: list[str], name: str
) -> None:
    text = (PROGRAMS / "floats.cc").read_text()
    program = compiled(f"floats-{name}-O0", [*command, "-std=c++17", "-g", "-O0"], text)
    results = 0
    for reported, seen in traced(lbtrace, program, tmp_path / "out.jsonl"):
        arguments = len(reported["args"])
        whole = check(reported, seen)
        if AMD64 and reported["name"] not in UNREAD:
            assert all(whole[:arguments]), reported
        results += sum(whole[arguments:])
    if AMD64 and command[0] == "g++":  # its code has results in rax too, unless just worked out
        assert results > 40


@pytest.mark.parametrize("level", ["-O1", "-O2"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_optimised(
    lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str, level: str
) -> None:
    text = (PROGRAMS / "floats.cc").read_text()
    command = [compiler, "-std=c++17", "-g", level, "-fno-inline"]
    program = compiled(f"floats-{compiler}{level}", command, text)
    assert sum(len(check(*pair)) for pair in traced(lbtrace, program, tmp_path / "out.jsonl")) > 90


def test_recursion_is_seen_once_a_call(lbtrace: Run, compiled: Compile, tmp_path: Path) -> None:
    text = (PROGRAMS / "floats.cc").read_text()
    program = compiled("floats-g++-O0", ["g++", "-std=c++17", "-g", "-O0"], text)
    done = lbtrace(
        *("attach", "--func", "traced_factorial", "--format", "jsonl", "-o", tmp_path / "out"),
        *("--", program),
    )
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    calls = [call for call in seen if call["type"] == "call"]
    assert sorted(call["depth"] for call in calls) == [0, 1, 2, 3]
    assert {call["end"] for call in calls} == {"returned"}
    if AMD64:
        reported = {call["args"][0]["value"]: call["result"] for call in calls}
        assert reported == {3.0: 6.0, 2.0: 2.0, 1.0: 1.0, 0.0: 1.0}


def test_uretprobes_stay_at_the_entry(lbtrace: Run, compiled: Compile, tmp_path: Path) -> None:
    text = (PROGRAMS / "floats.cc").read_text()
    program = compiled("floats-g++-O0", ["g++", "-std=c++17", "-g", "-O0"], text)
    words = ("attach", "--func", "traced_one", "--returns", "uretprobe", "--unsafe", "--dry-run")
    done = lbtrace(*words, "--", program)
    assert done.returncode == 0, done.stderr
    assert "after the stores of the floats" not in done.stdout
    if AMD64:
        moved = lbtrace(*words[:3], "--dry-run", "--", program).stdout
        assert "after the stores of the floats" in moved
