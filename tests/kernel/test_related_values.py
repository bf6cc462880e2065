"""Conditions about several values, of functions with few of them: the kernel's verifier takes the
programs, and the calls are those for which they hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "a > b": lambda a, b: a > b,
    "a - b * 3 > 4 and b + 9 != a": lambda a, b: a - b * 3 > 4 and b + 9 != a,
    'a != b and (a + 1 > 13 or comm == "nobody")': lambda a, b: a != b and a + 1 > 13,
}


@pytest.mark.parametrize("how", [(), ("--mode=plain",), ("--within=main",)], ids=str)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(lbtrace: Run, programs: Path, how: tuple[str, ...], condition: str) -> None:
    every = arguments(lbtrace, programs / "trace", *how)
    expected = [pair for pair in every if CONDITIONS[condition](*pair)]
    assert len(every) == 4
    assert arguments(lbtrace, programs / "trace", *how, "--where", condition) == expected


def arguments(lbtrace: Run, program: Path, *words: str) -> list[Any]:
    named = ("--func=larger", "--func=smaller", "--format=jsonl", *words)
    done = lbtrace("attach", *named, "--", program)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    calls = [record for record in records if record.get("name") in ("larger", "smaller")]
    return [tuple(argument["value"] for argument in call["args"]) for call in calls]
