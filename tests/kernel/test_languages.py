"""Values of C++ programs are shown as their sources write them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[[str, list[str], str], Path]

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def traced(lbtrace: Run, program: Path, out: Path) -> dict[str, list[dict[str, Any]]]:
    """The calls by their function's bare name."""
    done = lbtrace(
        *("attach", "--func", "*traced_*", "--depth", "1", "--format", "jsonl", "-o", out),
        *("--", program),
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, list[dict[str, Any]]] = {}
    for line in out.read_text().splitlines():
        call = json.loads(line)
        if call["type"] != "call":
            continue
        name = call["name"].split("::")[-1].split("[")[0]
        seen.setdefault(name, []).append(call)
    return seen


def arguments(call: dict[str, Any]) -> list[Any]:
    return [argument["value"] for argument in call["args"]]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp(lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str) -> None:
    text = (PROGRAMS / "languages.cc").read_text()
    program = compiled(f"languages-{compiler}", [compiler, "-std=c++17", "-g", "-O0"], text)
    seen = traced(lbtrace, program, tmp_path / "out.jsonl")
    assert [arguments(c) for c in seen["traced_string"]] == [
        ["short"],
        ["a string that does not fit inside"],
    ]
    assert arguments(seen["traced_ref"][0]) == ["reference", 5]
    assert arguments(seen["traced_view"][0]) == ["view", "on"]
    assert [c["result"] for c in seen["traced_make"]] == ["zzz", "z" * 40]
    by_value, by_reference = arguments(seen["traced_point"][0])
    assert by_value == {"x": 1, "y": 2.5}
    assert by_reference == {"x": 3, "y": 4.5}
    assert [c["result"] for c in seen["traced_mode"]] == ["on"]
