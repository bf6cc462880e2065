"""Values of C++ and Rust programs are shown as their sources write them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Rust = Callable[[str, str], Path]
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


@pytest.mark.parametrize("level", ["0", "2"])
def test_rust(lbtrace: Run, rust: Rust, tmp_path: Path, level: str) -> None:
    seen = traced(lbtrace, rust("languages.rs", level), tmp_path / "out.jsonl")
    assert [arguments(c) for c in seen["traced_str"]] == [["octi", 3], ["", -1]]
    assert arguments(seen["traced_string"][0]) == ["owned text", "é"]
    assert arguments(seen["traced_bytes"][0]) == ["by\0\udcff", "Blue", True]
    assert arguments(seen["traced_point"][0]) == [
        {"x": -7, "y": 8, "z": 9},
        {"x": 1, "y": 2, "z": 3},
    ]
    assert seen["traced_give"][0]["result"] == "qqqqq"
    assert arguments(seen["traced_slice"][0]) == [[1, 2, 3]]
    assert arguments(seen["traced_far"][0])[1:] == [1, 2, 3, 4, 5, "on the stack", [7, 8]]
    assert [arguments(c) for c in seen["traced_opt"]] == [
        [{"Some": {"x": 1, "y": 2, "z": 3}}, {"Some": 7}],
        ["None", "None"],
    ]
    if level == "0":  # else it ends with a jump to the function that returns for it
        assert [c["result"] for c in seen["traced_opt"]] == [{"Some": 7}, "None"]
        assert arguments(seen["traced_method"][0])[1] == 41
        assert seen["traced_method"][0]["result"] == 42
