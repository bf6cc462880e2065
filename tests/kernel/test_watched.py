"""Programs whose system calls are watched, emulated or served by themselves: a uretprobe makes
one of its own on x86-64 (Linux 6.11)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.model import Target
from lbtrace.targets import seccomp, watchers

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCES = Path(__file__).resolve().parents[1] / "programs/watched"


@pytest.mark.parametrize("returns", ["auto", "uretprobe"])
@pytest.mark.parametrize("name", ["tracer", "dispatcher"])
def test_watched_programs_run_as_untraced(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, name: str, returns: str
) -> None:
    program = tmp_path / name
    subprocess.run([tool("gcc"), "-O1", SOURCES / f"{name}.c", "-o", program], check=True)
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--func", "*", "--quiet", "--returns", returns, "--format", "jsonl"),
        *("-o", tmp_path / "out.jsonl", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    seen = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    works = [event for event in seen if event.get("name") == "work"]
    assert len(works) == 10
    if name == "tracer" and returns == "auto":
        assert all(call["end"] == "returned" for call in works)


def test_who_watches_is_known_beforehand(tmp_path: Path) -> None:
    """The returns of what is started by, or runs under, a debugger are seen all the same."""
    expected = seccomp.has_system_call()
    with subprocess.Popen(["sleep", "60"]) as alone:
        try:
            assert not watchers.hazard(Target(pid=alone.pid), None)
        finally:
            alone.kill()
    log = tmp_path / "log"
    with subprocess.Popen(
        ["strace", "-o", log, "-f", "sh", "-c", "echo $$; exec sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
    ) as strace:
        assert strace.stdout
        pid = int(strace.stdout.readline())
        try:
            hazard = watchers.hazard(Target(pid=pid), None)
            assert hazard.endswith(f"by process {strace.pid}, which traces it") == expected
        finally:
            os.kill(pid, signal.SIGKILL)
