"""The forks of lbtrace that tests run (tests/forked.py) are as lbtrace is when it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import Server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "attach --help",
        "attach --func nothing -- /no/such/program",
        "list --binary /bin/true",
        "export /no/such/capture",
        "--nonsense",
        "",
    ],
)
def test_a_fork_says_what_a_start_says(server: Server, words: str) -> None:
    command = [sys.executable, "tests/readback.py", *words.split()]
    started = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    forked = server.run(words.split(), timeout=60, cwd=ROOT)
    assert forked.returncode == started.returncode
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


def test_it_has_the_variables_and_the_directory_of_the_test(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").symlink_to("/bin/true")
    lines = []
    for columns in ("60", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        lines.append(server.run(["attach", "--help"], timeout=60).stdout.count("\n"))
    assert lines[0] > lines[1]
    here = server.run(["list", "--binary", "./own"], timeout=60, cwd=tmp_path)
    assert "No such file" not in here.stderr


def test_a_command_that_takes_too_long_is_killed(server: Server) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(["list", "--binary", sys.executable], timeout=0.001)
    assert server.run(["--version"], timeout=60).returncode == 0


def test_what_counts_when_a_process_starts_needs_a_start(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.can_run()
    monkeypatch.setenv("PYTHONUTF8", "1" if os.environ.get("PYTHONUTF8") != "1" else "0")
    assert not server.can_run()
