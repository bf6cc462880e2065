"""Programs whose coroutines' stacks are used again, for calls of other kinds, compared with
what they log themselves."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def compare(lbtrace: Run, program: Path, out: Path, *words: object) -> None:
    functions = ("work", "body", "on_array", "on_heap", "on_map")
    patterns = [word for name in functions for word in ("--func", name)]
    done = lbtrace(
        *("attach", *patterns, "--strict", "--quiet", "--force", "-o", out, "--", program),
        *words,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = sorted((r for r in records if r["type"] == "call"), key=lambda r: r["start"])
    assert [f"{call['name']} {call['depth']}" for call in calls] == done.stdout.splitlines(), words


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stacks_that_are_used_again(
    lbtrace: Run, programs: Path, tmp_path: Path, seed: int
) -> None:
    compare(lbtrace, programs / "stacks", tmp_path / "out.jsonl", seed)


@pytest.mark.slow
def test_more_stacks(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    for _ in range(60):
        seed = random.randrange(1 << 32)
        compare(lbtrace, programs / "stacks", tmp_path / "out.jsonl", seed, 100)
