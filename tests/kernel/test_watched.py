"""Programs whose system calls are watched, emulated or served by themselves: a uretprobe makes
one of its own on x86-64 (Linux 6.11), and a session's program refuses it there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

SOURCES = Path(__file__).resolve().parents[1] / "programs/watched"


@pytest.mark.parametrize("name", ["tracer", "dispatcher"])
@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
def test_watched_programs_run_as_untraced(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]],
    modes: list[str],
    tmp_path: Path,
    name: str,
    returns: str,
) -> None:
    program = tmp_path / name
    subprocess.run(["gcc", "-O1", SOURCES / f"{name}.c", "-o", program], check=True)
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    if returns == "uretprobe" and name == "tracer":  # it watches calls that are hooked already
        done = lbtrace("attach", "--func", "*", "--returns", "uretprobe", "--", program)
        assert done.returncode == 2
        assert "may be watched" in done.stderr or "are watched" in done.stderr
        return
    hooks = returns == "uretprobe" and "session" in modes
    options = ("--returns", "uretprobe", "--unsafe") if hooks else ()
    words = ("attach", "--func", "*", "--quiet", *options, "-o", tmp_path / "out.jsonl")
    done = lbtrace(*words, "--", program)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    seen = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    works = [event["end"] for event in seen if event.get("name") == "work"]
    assert len(works) == 10
    assert hooks or set(works) == {"returned"}
