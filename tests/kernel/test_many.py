"""Very many functions at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_ten_thousand(lbtrace: Run, many: Path, modes: list[str]) -> None:
    # Ten thousand plain links would take a quarter of an hour.
    pattern, numbers = ("*", range(10_000)) if "multi" in modes else ("[1-3]??", range(100, 400))
    called = [number for number in numbers if number % 3 == 0]
    words = ("--func", f"many_{pattern}", "--format", "jsonl", "--strict")
    done = lbtrace("attach", *words, "--", many)
    assert done.returncode == 0, done.stderr
    calls = [
        record for record in map(json.loads, done.stdout.splitlines()) if record["type"] == "call"
    ]
    assert [call["name"] for call in calls] == [f"many_{number}" for number in called]
    assert [call["result"] for call in calls] == [number // 3 + 1 for number in called]


@pytest.mark.host
def test_too_many_are_asked_about(lbtrace: Run, tmp_path: Path) -> None:
    source, program = tmp_path / "crowd.s", tmp_path / "crowd"
    names = [f"crowd_{n}" for n in range(50_001)]
    source.write_text(
        "".join(f".globl {n}\n.type {n}, @function\n{n}: ret\n.size {n}, . - {n}\n" for n in names)
        + ".globl main\nmain: ret\n"
    )
    subprocess.run(["gcc", source, "-o", program], check=True)
    done = lbtrace("attach", "--binary", program, "--func", "crowd_*", "--dry-run")
    assert done.returncode == 2
    assert "50,001 functions" in done.stderr
    assert "--force" in done.stderr
