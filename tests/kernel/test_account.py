"""What is lost is accounted for: calls made are calls shown and losses told."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("returns", ["uretprobe", "sites"])
@pytest.mark.parametrize("through", ["live", "capture"])
def test_overload(lbtrace: Run, programs: Path, tmp_path: Path, returns: str, through: str) -> None:
    """Four threads against a ring of 32 events; the program says what it called."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    done = lbtrace(
        *("attach", "--func", "traced_*", "--ring-size", "4K", "--strict", "--returns", returns),
        *(("--format", "jsonl") if through == "live" else ("-o", capture)),
        *("--args", "1", "--", programs / "exact-O2", log, "busy", 4000),
    )
    assert done.returncode == 3, done.stderr
    text = done.stdout
    if through == "capture":
        text = lbtrace("export", capture, "--format", "jsonl").stdout
    lines = [line.split() for line in log.read_text().splitlines()]
    made = Counter(int(line[1]) for line in lines)
    possible = {tuple(line[2:5]) for line in lines}
    shown: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    returned = returns_lost = 0
    *found, summary = records(text)
    for record in found:
        if record["type"] == "call":
            shown[record["tid"]] += 1
            if record["end"] == "returned":
                returned += 1
                argument = record["args"][0]["value"]
                assert (record["name"], str(argument), str(record["result"])) in possible
            else:
                assert record["end"] == "open"
        else:
            lost[record["tid"]] += record["entries"]
            returns_lost += record["count"] - record["entries"]
    assert len(made) == 4
    assert shown + lost == made
    assert sum(lost.values()) == summary["lost"]["ring_full_entry"] > 0
    assert returns_lost == summary["lost"]["ring_full_return"] > 0
    assert returned + returns_lost <= sum(made.values())
    assert summary["calls"] == sum(shown.values())
